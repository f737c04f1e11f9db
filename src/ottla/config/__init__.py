"""One table of settings with Kafka's names, and what is derived from it.

Validation, `DescribeConfigs`, the broker's typed view and `docs/configuration.md` all come from the
same table. The package is pure: texts, environments and host names are passed in.
"""

from ottla.config.broker import BrokerConfig
from ottla.config.broker_configs import BROKER_CONFIGS
from ottla.config.definition import ConfigDef, DynamicMode, Importance, Scope
from ottla.config.describe import ConfigSource, Described, Synonym, describe_broker, describe_topic
from ottla.config.errors import ConfigError
from ottla.config.resolve import BrokerSettings, broker_values, topic_values
from ottla.config.sources import LoadedConfig, load
from ottla.config.topic_configs import TOPIC_CONFIGS, check_topic_configs
from ottla.config.types import ConfigType, Value, format_value, parse_value

__all__ = [
    "BROKER_CONFIGS",
    "TOPIC_CONFIGS",
    "BrokerConfig",
    "BrokerSettings",
    "ConfigDef",
    "ConfigError",
    "ConfigSource",
    "ConfigType",
    "Described",
    "DynamicMode",
    "Importance",
    "LoadedConfig",
    "Scope",
    "Synonym",
    "Value",
    "broker_values",
    "check_topic_configs",
    "describe_broker",
    "describe_topic",
    "format_value",
    "load",
    "parse_value",
    "topic_values",
]
