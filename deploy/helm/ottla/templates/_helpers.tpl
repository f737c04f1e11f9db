{{- define "ottla.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "ottla.selector" -}}
app.kubernetes.io/name: ottla
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ottla.labels" -}}
{{ include "ottla.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}
