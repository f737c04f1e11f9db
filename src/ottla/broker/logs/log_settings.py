"""A topic's settings in the form its logs obey."""

from collections.abc import Mapping
from dataclasses import fields

from ottla.config import BrokerConfig, topic_values
from ottla.log.config import LogConfig

_FROM_TOPIC = {
    field.name: field.name.replace("_", ".")
    for field in fields(LogConfig)
    if field.name != "producer_id_expiration_ms"
}


def log_config(overrides: Mapping[str, str], config: BrokerConfig) -> LogConfig:
    """What a topic with these settings of its own means to its logs."""
    values = topic_values(overrides, config.topic_defaults)
    settings = {field: values[name] for field, name in _FROM_TOPIC.items()}
    policy = settings["cleanup_policy"]
    assert isinstance(policy, tuple)
    settings["cleanup_policy"] = frozenset(policy)  # type: ignore[assignment]  # LogConfig has a set
    return LogConfig(
        **settings,  # type: ignore[arg-type]  # names and types are the table's: a test holds it
        producer_id_expiration_ms=config.producer_id_expiration_ms,
    )
