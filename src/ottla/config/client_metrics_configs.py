"""The settings of a subscription to clients' metrics (KIP-714), and their checks.

Rules kept here:
1. They are stored and described as in Kafka, and have no effect: nobody receives metrics here, so
   clients are not asked to send any.
2. `match` names what a client is recognised by. The patterns themselves are not compiled: they are
   in Java's syntax, and nothing is compared with them.
"""

from collections.abc import Mapping

from ottla.config.definition import ConfigDef, Scope, table
from ottla.config.errors import ConfigError
from ottla.config.types import ConfigType, Value
from ottla.wire.errors import ErrorCode, KafkaError

METRICS = "metrics"
INTERVAL = "interval.ms"
MATCH = "match"
SHORTEST_INTERVAL, LONGEST_INTERVAL = 100, 3_600_000
MATCHED = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)
"""What a client can be recognised by."""


def _subscription(name: str, kind: ConfigType, default: Value, doc: str) -> ConfigDef:
    return ConfigDef(name, kind, default, doc, scope=Scope.CLIENT_METRICS)


CLIENT_METRICS_CONFIGS = table(
    _subscription(METRICS, ConfigType.LIST, (), "Prefixes of the names of the metrics."),
    _subscription(INTERVAL, ConfigType.INT, 300_000, "How often clients push them."),
    _subscription(MATCH, ConfigType.LIST, (), "Which clients push them."),
)


def check_client_metrics_configs(configs: Mapping[str, str]) -> None:
    """Raise what Kafka says of the first setting that is wrong."""
    for name in configs:
        if name not in CLIENT_METRICS_CONFIGS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}"
            )
    values = {name: CLIENT_METRICS_CONFIGS[name].parse(text) for name, text in configs.items()}
    interval = values.get(INTERVAL)
    if isinstance(interval, int) and not SHORTEST_INTERVAL <= interval <= LONGEST_INTERVAL:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval} for {INTERVAL}, interval must be between "
            f"{SHORTEST_INTERVAL} and {LONGEST_INTERVAL} (1 hour)",
        )
    patterns = values.get(MATCH)
    for pattern in patterns if isinstance(patterns, tuple) else ():
        what, equals, wanted = pattern.partition("=")
        if what.strip() not in MATCHED or not equals or not wanted or "=" in wanted:
            raise ConfigError(f"Illegal client matching pattern: {pattern}")
