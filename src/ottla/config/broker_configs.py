"""All broker settings, in one table, and the Kafka settings that mean nothing here.

The rows are kept in modules by subject. A name that is valid in Kafka 4.3 is either in the
table, a listener's own setting of it, or ignored with a warning, so that a Kafka
`server.properties` works; any other name is wrong.
"""

from ottla.config.audit_configs import AUDIT_CONFIGS
from ottla.config.authorization_configs import AUTHORIZATION_CONFIGS
from ottla.config.broker_log_configs import LOG_CONFIGS
from ottla.config.broker_network_configs import NETWORK_CONFIGS
from ottla.config.broker_replica_configs import REPLICA_CONFIGS
from ottla.config.coordinator_configs import COORDINATOR_CONFIGS
from ottla.config.definition import ConfigDef, table
from ottla.config.errors import ConfigError, unknown_name
from ottla.config.ignored_configs import is_ignored
from ottla.config.listener_configs import PREFIX
from ottla.config.listener_configs import definition as listener_definition
from ottla.config.security_configs import SECURITY_CONFIGS
from ottla.config.share_configs import SHARE_CONFIGS
from ottla.config.streams_configs import STREAMS_CONFIGS
from ottla.config.topic_configs import TOPIC_CONFIGS

BROKER_CONFIGS: dict[str, ConfigDef] = table(
    *NETWORK_CONFIGS,
    *SECURITY_CONFIGS,
    *AUTHORIZATION_CONFIGS,
    *LOG_CONFIGS,
    *REPLICA_CONFIGS,
    *COORDINATOR_CONFIGS,
    *SHARE_CONFIGS,
    *STREAMS_CONFIGS,
    *AUDIT_CONFIGS,
)


def broker_definition(name: str) -> ConfigDef | None:
    """The setting of that name, None for one without effect here; ConfigError for a wrong name."""
    if name.startswith(PREFIX):
        return listener_definition(name)
    definition = BROKER_CONFIGS.get(name)
    if definition is None and not is_ignored(name):
        raise _unknown(name)
    return definition


def _unknown(name: str) -> ConfigError:
    topic_setting = TOPIC_CONFIGS.get(name)
    # A topic's name for a setting is the likeliest mistake, and likeness alone would not find it.
    hint = topic_setting.synonyms[0] if topic_setting and topic_setting.synonyms else None
    return unknown_name("", name, BROKER_CONFIGS, hint)
