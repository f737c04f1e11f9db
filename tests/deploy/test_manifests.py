"""Containers, compose, Kubernetes, Helm and systemd: what can be checked without running them.

Settings in them must be settings that the broker takes; names and ports must fit together. Helm and
kubeconform check the rest where they are installed.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.config import BrokerConfig
from ottla.config.sources import load
from tools.docs_links import link_on_site

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "ottla"
# Without it a helm that was built from source takes the cluster for a very old one.
KUBERNETES = ("--kube-version", "1.31.0")
HELM, KUBECONFORM = shutil.which("helm"), shutil.which("kubeconform")
# Neither is a Python or Debian package. The plain manifests are checked without them.
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed")


def settings(properties: str, environment: dict[str, str], *flags: str) -> BrokerConfig:
    """What the broker makes of a file, variables and flags; raises where it refuses them."""
    loaded = load(properties, file_name="server.properties", environ=environment, flags=list(flags))
    assert loaded.warnings == ()
    return BrokerConfig.from_static(loaded.values)


def documents(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    found = [each for each in yaml.safe_load_all(text) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def rendered(*arguments: str) -> str:
    assert HELM is not None
    return subprocess.run(
        [HELM, "template", "ottla", str(CHART), *KUBERNETES, *arguments],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def check_set(made: dict[tuple[str, str], dict[str, Any]]) -> None:
    """The parts of a StatefulSet fit together."""
    properties = made["ConfigMap", "ottla"]["data"]["server.properties"]
    stateful = made["StatefulSet", "ottla"]["spec"]
    headless = made["Service", "ottla-headless"]["spec"]
    pod = stateful["template"]["spec"]
    (container,) = pod["containers"]
    (command,) = container["args"]
    assert stateful["serviceName"] == "ottla-headless"
    assert headless["clusterIP"] == "None"
    labels = stateful["template"]["metadata"]["labels"]
    budget = made["PodDisruptionBudget", "ottla"]["spec"]
    selectors = [headless["selector"], stateful["selector"]["matchLabels"]]
    for selector in (*selectors, budget["selector"]["matchLabels"]):
        assert selector.items() <= labels.items()
    assert pod["enableServiceLinks"] is False
    script = command.replace("exec ottla serve", "printf '%s\\n'")
    ran = subprocess.run(
        ["/bin/sh", "-c", script],
        env={"POD_NAME": "ottla-2", "POD_NAMESPACE": "prod"},
        capture_output=True,
        text=True,
        check=True,
    )
    words = ran.stdout.split("\n")
    assert words[words.index("--id") + 1] == "3"
    config = settings(properties, {}, words[words.index("--set") + 1], "node.id=3")
    (listener,) = config.bound_listeners
    (advertised,) = config.advertised({}, "pod")
    assert advertised.host == "ottla-2.ottla-headless.prod.svc"
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"kafka": listener.port, "metrics": config.ottla_metrics_port}
    assert advertised.port == listener.port
    assert config.ottla_metrics_host == "0.0.0.0"
    mounts = {each["mountPath"] for each in container["volumeMounts"]}
    assert any(config.log_dirs[0].startswith(mount + "/") for mount in mounts)


def test_the_manifests_fit_together() -> None:
    check_set(documents((DEPLOY / "kubernetes" / "ottla.yaml").read_text()))


@needs_helm
def test_the_chart_makes_the_same_parts() -> None:
    assert HELM is not None
    subprocess.run(
        [HELM, "lint", "--strict", *KUBERNETES, str(CHART)], check=True, capture_output=True
    )
    check_set(documents(rendered()))


@needs_helm
def test_secrets_and_monitors_are_made_where_they_are_asked_for() -> None:
    text = rendered(
        *("--set", "secretName=s"),
        *("--set", "filesSecretName=f"),
        *("--set", "podMonitor.enabled=true"),
    )
    made = documents(text)
    assert ("PodMonitor", "ottla") in made
    pod = made["StatefulSet", "ottla"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "s"}}]
    assert {"name": "files", "secret": {"secretName": "f", "defaultMode": 0o440}} in pod["volumes"]


@needs_helm
def test_several_brokers_without_a_store_are_refused() -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        rendered("--set", "store=")
    assert "need a metadata store" in refused.value.stderr
    check_one = documents(rendered("--set", "store=", "--set", "replicas=1"))
    assert "ottla.store" not in check_one["ConfigMap", "ottla"]["data"]["server.properties"]


# The shape of the manifests is tested above without it.
@pytest.mark.skipif(KUBECONFORM is None, reason="kubeconform is not installed")
@pytest.mark.parametrize("what", ["manifests", pytest.param("chart", marks=needs_helm)])
def test_kubeconform_accepts_them(what: str) -> None:
    assert KUBECONFORM is not None
    text = rendered() if what == "chart" else (DEPLOY / "kubernetes" / "ottla.yaml").read_text()
    ran = subprocess.run(
        [KUBECONFORM, "-strict", "-summary"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if "could not download" in ran.stdout + ran.stderr or "failed downloading" in ran.stdout:
        pytest.skip("kubeconform cannot download Kubernetes' schemas here")
    assert ran.returncode == 0, ran.stdout


def test_the_brokers_of_the_compose_file_are_one_cluster() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yml").read_text())["services"]
    image = (DEPLOY / "docker" / "server.properties").read_text()
    brokers = {name: each for name, each in services.items() if name.startswith("broker-")}
    assert len(brokers) == 3
    ids = set()
    for name, service in brokers.items():
        config = settings(image, service["environment"])
        ids.add(config.node_id)
        internal, outside = config.advertised({}, "pod")
        assert (internal.host, outside.host) == (name, "localhost")
        assert service["ports"] == [f"127.0.0.1:{outside.port}:{outside.port}"]
        assert config.inter_broker.name == "INTERNAL"
        assert config.ottla_store.startswith("zookeeper://zookeeper:2181/")
        scraped = yaml.safe_load((DEPLOY / "monitoring" / "prometheus.yml").read_text())
        (job,) = scraped["scrape_configs"]
        assert f"{name}:{config.ottla_metrics_port}" in job["static_configs"][0]["targets"]
    assert ids == {1, 2, 3}


def test_the_image_runs_as_nobody_special_with_a_health_check() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    final = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", final, re.MULTILINE)
    config = settings((DEPLOY / "docker" / "server.properties").read_text(), {})
    assert f"EXPOSE 9092 {config.ottla_metrics_port}" in final
    assert "/healthz" in final
    assert config.log_dirs[0].startswith("/var/lib/ottla/")
    for source in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE):
        for each in source.split():
            assert (ROOT / each).exists()
            assert f"!{each}" in (ROOT / ".dockerignore").read_text().splitlines()


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    unit = (DEPLOY / "systemd" / "ottla.service").read_text()
    (tmp_path / "ottla.service").write_text(unit.replace("/opt/ottla/bin/ottla", "/bin/true"))
    ran = subprocess.run(
        [analyze, "verify", str(tmp_path / "ottla.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ottla.service" not in ran.stderr, ran.stderr


def test_links_out_of_the_docs_lead_to_the_repository() -> None:
    link = "../deploy/monitoring/"
    assert link_on_site("rules", link, "operations.md", None) == "rules"
    assert (
        link_on_site("rules", link, "operations.md", "https://example.org/o/")
        == "[rules](https://example.org/o/blob/main/deploy/monitoring)"
    )
    assert link_on_site("x", "../audit.md", "quickstart/tests.md", None) == "[x](../audit.md)"
