"""What the broker counts, and how it is shown.

- `counters`: plain integers that the hot path raises.
- `sources`: what the metrics are read from, as interfaces.
- `exposition`: the metrics as Prometheus text.
- `metrics_server`: /metrics and /healthz over HTTP.
- `log_level`: how much this process logs (BROKER_LOGGER).

Rule of the room: it depends on no other room. What it reads, it names in `sources`.
"""
