"""Effective values and what DescribeConfigs says about them; seen on Apache Kafka 4.3.0."""

import pytest

from ottla.config import BROKER_CONFIGS, TOPIC_CONFIGS, BrokerConfig, BrokerSettings, ConfigType
from ottla.config.describe import (
    ConfigSource,
    Described,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)
from ottla.config.resolve import topic_values
from ottla.config.types import Value


def _topic_value(name: str, overrides: dict[str, str], settings: BrokerSettings) -> Value:
    return topic_values(overrides, BrokerConfig(settings).topic_defaults)[name]


def _one(described: list[Described]) -> Described:
    assert len(described) == 1
    return described[0]


def _sources(described: Described) -> list[str]:
    return [f"{one.source.name}:{one.name}={one.value}" for one in described.synonyms]


@pytest.mark.parametrize(
    ("settings", "retention"),
    [
        (BrokerSettings(), 604_800_000),
        (BrokerSettings({"log.retention.hours": "2"}), 7_200_000),
        (BrokerSettings({"log.retention.hours": "2", "log.retention.minutes": "3"}), 180_000),
        (BrokerSettings({"log.retention.minutes": "3", "log.retention.ms": "4"}), 4),
        (BrokerSettings({"log.retention.ms": "4"}, {"log.retention.ms": "5"}), 5),
        (BrokerSettings({}, {"log.retention.ms": "5"}, {"log.retention.ms": "6"}), 6),
        (BrokerSettings({"log.retention.ms": "-5"}), -1),
        (BrokerSettings({"log.retention.minutes": "-1"}), -1),
    ],
)
def test_a_topic_inherits_the_strongest_broker_setting(
    settings: BrokerSettings, retention: int
) -> None:
    assert _topic_value("retention.ms", {}, settings) == retention
    assert _topic_value("retention.ms", {"retention.ms": "9"}, settings) == 9


def test_a_topic_without_any_setting_has_kafkas_defaults() -> None:
    values = topic_values({}, BrokerConfig.from_static({}).topic_defaults)
    assert values == {name: row.default for name, row in TOPIC_CONFIGS.items()}


def test_a_test_may_have_smaller_segments_than_users() -> None:
    overrides = {"internal.segment.bytes": "100"}
    assert _topic_value("segment.bytes", overrides, BrokerSettings()) == 100
    shown = {one.name: one.value for one in describe_topic(overrides, BrokerSettings())}
    assert shown["segment.bytes"] == "1073741824"
    assert "internal.segment.bytes" not in shown


def test_a_topics_own_setting_comes_first_among_its_synonyms() -> None:
    settings = BrokerSettings({}, {}, {"log.retention.ms": "777777777"})
    described = _one(describe_topic({"retention.ms": " 1234567 "}, settings, {"retention.ms"}))
    assert (described.value, described.source) == ("1234567", ConfigSource.TOPIC_CONFIG)
    assert _sources(described) == [
        "TOPIC_CONFIG:retention.ms=1234567",
        "DYNAMIC_BROKER_CONFIG:log.retention.ms=777777777",
        "DEFAULT_CONFIG:log.retention.hours=168",
    ]
    assert described.type is ConfigType.LONG
    assert not described.read_only


def test_a_cluster_wide_setting_is_a_synonym_of_the_topics() -> None:
    settings = BrokerSettings({}, {"log.segment.bytes": "1073741000"})
    described = _one(describe_topic({}, settings, {"segment.bytes"}))
    assert (described.value, described.source) == (
        "1073741000",
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    )
    assert _sources(described) == [
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes=1073741000",
        "DEFAULT_CONFIG:log.segment.bytes=1073741824",
    ]


def test_synonyms_begin_at_the_settings_own_name() -> None:
    """Kafka's habit: with only the hours set, `retention.ms` has the value but no synonyms."""
    settings = BrokerSettings({"log.retention.hours": "1"})
    described = _one(describe_topic({}, settings, {"retention.ms"}))
    assert described.value == "3600000"
    assert described.source is ConfigSource.DEFAULT_CONFIG
    assert described.synonyms == ()
    segment_ms = _one(describe_topic({}, settings, {"segment.ms"}))
    assert (segment_ms.value, segment_ms.synonyms) == ("604800000", ())


def test_a_topics_lists_and_switches_are_shown_normalised() -> None:
    overrides = {"cleanup.policy": " compact , delete", "preallocate": "TRUE"}
    shown = {one.name: one for one in describe_topic(overrides, BrokerSettings())}
    assert shown["cleanup.policy"].synonyms[0].value == "compact,delete"
    assert shown["preallocate"].value == "true"


def test_a_topics_settings_are_all_shown_but_internal_ones() -> None:
    shown = [one.name for one in describe_topic({}, BrokerSettings())]
    assert shown == [name for name, row in TOPIC_CONFIGS.items() if not row.internal]


def test_a_brokers_settings_are_all_shown() -> None:
    settings = BrokerSettings({"node.id": "4"}, {"max.connections": "7"}, {})
    shown = {one.name: one for one in describe_broker(settings)}
    assert set(shown) == {name for name, row in BROKER_CONFIGS.items() if not row.internal}
    assert shown["node.id"].source is ConfigSource.STATIC_BROKER_CONFIG
    assert shown["node.id"].read_only
    assert not shown["max.connections"].read_only
    assert _sources(shown["max.connections"]) == [
        "DYNAMIC_DEFAULT_BROKER_CONFIG:max.connections=7",
        "DEFAULT_CONFIG:max.connections=2147483647",
    ]
    assert (shown["log.retention.ms"].value, shown["log.retention.ms"].synonyms) == (None, ())
    assert shown["log.cleaner.io.max.bytes.per.second"].value == "1.7976931348623157E308"


@pytest.mark.parametrize(
    ("static", "number"), [({}, "1"), ({"node.id": "7"}, "7"), ({"broker.id": "5"}, "5")]
)
def test_the_brokers_id_is_shown_under_both_its_names(static: dict[str, str], number: str) -> None:
    shown = {one.name: one.value for one in describe_broker(BrokerSettings(static))}
    assert (shown["node.id"], shown["broker.id"]) == (number, number)


def test_only_what_is_set_is_shown_of_the_clusters_defaults() -> None:
    described = _one(describe_cluster_default({"log.segment.bytes": "1073741000"}))
    assert described.value == "1073741000"
    assert described.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert describe_cluster_default({"log.segment.bytes": "1073741000"}, {"other"}) == []


def test_dynamic_settings_without_effect_are_described_and_secrets_are_not_told() -> None:
    given = {"leader.replication.throttled.rate": "5", "my.plugin.password": "x"}
    settings = BrokerSettings({}, {"num.io.threads": "9"}, given)
    shown = {one.name: one for one in describe_broker(settings)}
    assert shown["leader.replication.throttled.rate"].value == "5"
    assert shown["leader.replication.throttled.rate"].source is ConfigSource.DYNAMIC_BROKER_CONFIG
    assert shown["num.io.threads"].source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert shown["my.plugin.password"].sensitive
    assert shown["my.plugin.password"].value is None
    assert [one.name for one in describe_broker(settings, ["num.io.threads"])] == ["num.io.threads"]
    assert [one.name for one in describe_cluster_default(given)] == list(given)
