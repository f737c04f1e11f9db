"""The broker's typed view: attributes, effective values, and combinations that cannot work."""

import typing
from types import GenericAlias, UnionType

import pytest

from ottla.config import BROKER_CONFIGS, BrokerConfig, BrokerSettings, ConfigError
from ottla.config.types import ConfigType

PYTHON_TYPES: dict[ConfigType, type | GenericAlias] = {
    ConfigType.BOOLEAN: bool,
    ConfigType.INT: int,
    ConfigType.SHORT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
    ConfigType.STRING: str,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
    ConfigType.LIST: tuple[str, ...],
}
NEVER_NONE = {
    "log.retention.ms",
    "log.roll.ms",
    "log.roll.jitter.ms",
    "log.flush.interval.ms",
    "log.dirs",
}


def test_every_setting_is_an_attribute_of_its_type() -> None:
    declared = typing.get_type_hints(BrokerConfig)
    expected: dict[str, type | GenericAlias | UnionType] = {}
    for name, row in BROKER_CONFIGS.items():
        kind = PYTHON_TYPES[row.type]
        may_be_none = row.default is None and name not in NEVER_NONE
        expected[row.attribute] = kind | None if may_be_none else kind
    assert declared == expected


def test_defaults_need_no_settings() -> None:
    config = BrokerConfig.from_static({})
    assert config.node_id == 1
    assert config.broker_id == 1
    assert config.log_dirs == ("ottla-data",)
    assert config.log_retention_ms == 7 * 24 * 3_600_000
    assert config.log_roll_ms == 7 * 24 * 3_600_000
    assert config.log_roll_jitter_ms == 0
    assert config.log_flush_interval_ms == 2**63 - 1
    assert config.socket_request_max_bytes == 100 * 1024 * 1024
    assert [str(listener) for listener in config.bound_listeners] == ["PLAINTEXT://127.0.0.1:9092"]


def test_the_older_name_sets_the_node_id() -> None:
    assert BrokerConfig.from_static({"broker.id": "7"}).node_id == 7


@pytest.mark.parametrize("assignors", ["foo", "range,foo", ""])
def test_assignors_that_are_none_are_refused(assignors: str) -> None:
    with pytest.raises(ConfigError, match=r"group\.consumer\.assignors"):
        BrokerConfig.from_static({"group.consumer.assignors": assignors})


def test_settings_without_effect_are_dropped_and_wrong_ones_refused() -> None:
    config = BrokerConfig.from_static({"num.io.threads": "8", "node.id": "2"})
    assert config.settings.static == {"node.id": "2", "broker.id": "2"}
    with pytest.raises(ConfigError, match=r"did you mean num\.partitions"):
        BrokerConfig.from_static({"num.partitoins": "8"})


def test_dynamic_settings_make_a_new_config_over_the_same_static_ones() -> None:
    config = BrokerConfig.from_static({"message.max.bytes": "1000", "node.id": "3"})
    changed = config.with_dynamic({"message.max.bytes": "2000"}, {"max.connections": "5"})
    assert (config.message_max_bytes, changed.message_max_bytes) == (1000, 2000)
    assert (changed.max_connections, changed.node_id) == (5, 3)
    assert changed.topic_defaults["max.message.bytes"] == 2000
    assert changed.with_dynamic({}, {}).message_max_bytes == 1000


def test_dynamic_settings_of_one_broker_beat_those_of_the_cluster() -> None:
    settings = BrokerSettings(
        {"log.retention.hours": "1"}, {"log.retention.ms": "2"}, {"log.retention.ms": "3"}
    )
    assert BrokerConfig(settings).log_retention_ms == 3


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ("broker.id=3 node.id=4", "broker.id: Must be equal to node.id"),
        ("broker.id=-5", "broker.id: Value must be at least 0"),
        ("log.dirs=a,b", "log.dirs: Exactly one folder is supported"),
        ("log.roll.ms=0", "log.roll.ms: Value must be at least 1"),
        ("log.roll.jitter.ms=-1", "log.roll.jitter.ms: Value must be at least 0"),
        ("log.retention.ms=0", "log.retention.ms: Value must be at least 1, or -1"),
        ("log.retention.minutes=0", "log.retention.ms: Value must be at least 1, or -1"),
        ("queued.max.request.bytes=5", "queued.max.request.bytes: Ottla has no request queue"),
        ("max.connections=0", "max.connections: Value must be at least 1"),
        (
            "max.connection.creation.rate=0",
            "max.connection.creation.rate: Value must be at least 1",
        ),
        ("max.connections.per.ip=0", "max.connections.per.ip: May be 0 only"),
        (
            "log.cleaner.dedupe.buffer.size=2097152 log.cleaner.threads=2",
            "log.cleaner.dedupe.buffer.size: Must be more than 1 MB",
        ),
        ("replica.fetch.wait.max.ms=30001", "replica.fetch.wait.max.ms: Must not be more than"),
        (
            "group.min.session.timeout.ms=1800001",
            "group.min.session.timeout.ms: Must not be more than",
        ),
        ("max.connections.per.ip.overrides=here", "'here' is not address:count"),
        ("max.connections.per.ip.overrides=localhost:2", "localhost is not an IP address"),
        ("advertised.listeners=OTHER://h:1", "has no protocol for OTHER"),
        ("security.inter.broker.protocol=SASL_SSL", "No such listener"),
    ],
)
def test_a_combination_that_cannot_work_is_refused(settings: str, complaint: str) -> None:
    static = dict(setting.split("=", 1) for setting in settings.split())
    with pytest.raises(ConfigError, match=complaint) as raised:
        BrokerConfig.from_static(static)
    assert "\n" not in str(raised.value)


def test_addresses_may_have_limits_of_their_own() -> None:
    config = BrokerConfig.from_static(
        {
            "max.connections.per.ip": "0",
            "max.connections.per.ip.overrides": "127.0.0.1:5, [::1]:6, FE80:0:0:0:0:0:0:7:7",
        }
    )
    assert config.connections_per_ip_overrides == {"127.0.0.1": 5, "::1": 6, "fe80::7": 7}
