"""Changes of settings while the broker runs; the answers were seen on Apache Kafka 4.3.0."""

import pytest

from ottla.config.dynamic import (
    Alteration,
    AlterOp,
    altered_broker_configs,
    altered_topic_configs,
    check_dynamic_broker_configs,
)
from ottla.wire.errors import ErrorCode, KafkaError


def _topic(current: dict[str, str], op: AlterOp, name: str, value: str | None) -> dict[str, str]:
    return altered_topic_configs(current, [Alteration(name, op, value)])


def test_set_and_delete() -> None:
    assert _topic({}, AlterOp.SET, "retention.ms", "5") == {"retention.ms": "5"}
    assert _topic({"retention.ms": "5"}, AlterOp.DELETE, "retention.ms", None) == {}
    assert _topic({}, AlterOp.DELETE, "no.such", None) == {}


def test_append_and_subtract_begin_with_the_default_list() -> None:
    policies = _topic({}, AlterOp.APPEND, "cleanup.policy", "compact")
    assert policies == {"cleanup.policy": "delete,compact"}
    assert _topic(policies, AlterOp.APPEND, "cleanup.policy", "compact") == policies
    only = _topic(policies, AlterOp.SUBTRACT, "cleanup.policy", "delete")
    assert only == {"cleanup.policy": "compact"}
    assert _topic(only, AlterOp.SUBTRACT, "cleanup.policy", "nope") == only
    assert _topic(only, AlterOp.SUBTRACT, "cleanup.policy", "compact") == {"cleanup.policy": ""}


@pytest.mark.parametrize(
    ("op", "name", "value", "code", "message"),
    [
        (AlterOp.SET, "no.such", "1", ErrorCode.INVALID_CONFIG, "Unknown topic config name"),
        (AlterOp.SET, "retention.m", "1", ErrorCode.INVALID_CONFIG, "did you mean retention.ms"),
        (AlterOp.SET, "retention.ms", "x", ErrorCode.INVALID_CONFIG, "Not a number of type LONG"),
        (AlterOp.SET, "retention.ms", "-2", ErrorCode.INVALID_CONFIG, "Value must be at least -1"),
        (AlterOp.SET, "retention.ms", None, ErrorCode.INVALID_REQUEST, "Null value"),
        (AlterOp.APPEND, "retention.ms", "5", ErrorCode.INVALID_CONFIG, "its type is not LIST"),
        (AlterOp.SUBTRACT, "no.such", "5", ErrorCode.INVALID_CONFIG, "its type is not LIST"),
        (AlterOp.APPEND, "cleanup.policy", "bad", ErrorCode.INVALID_CONFIG, "String must be one"),
        (AlterOp.SET, "compression.type", "arj", ErrorCode.INVALID_CONFIG, "String must be one"),
        (AlterOp.SET, "compression.gzip.level", "0", ErrorCode.INVALID_CONFIG, "between 1 and 9"),
        (AlterOp.SET, "remote.storage.enable", "true", ErrorCode.INVALID_CONFIG, "not supported"),
        (AlterOp.SET, "max.compaction.lag.ms", "10", ErrorCode.INVALID_CONFIG, "more than max"),
        (AlterOp.SET, "min.cleanable.dirty.ratio", "1.1", ErrorCode.INVALID_CONFIG, "no more than"),
        (
            AlterOp.SET,
            "leader.replication.throttled.replicas",
            "*,1:2",
            ErrorCode.INVALID_CONFIG,
            "literal",
        ),
    ],
)
def test_a_wrong_change_of_a_topic_is_refused(
    op: AlterOp, name: str, value: str | None, code: ErrorCode, message: str
) -> None:
    with pytest.raises(KafkaError, match=message) as raised:
        _topic({"min.compaction.lag.ms": "1000"}, op, name, value)
    assert raised.value.code is code


@pytest.mark.parametrize("value", ["", "*", "1:2", "1:2,3:4", " 1:2 , 3:4"])
def test_throttled_replicas_are_pairs_or_a_star(value: str) -> None:
    name = "leader.replication.throttled.replicas"
    assert _topic({}, AlterOp.SET, name, value) == {name: value}


def test_a_name_may_come_only_once() -> None:
    twice = [Alteration("retention.ms", AlterOp.SET, "1")] * 2
    with pytest.raises(KafkaError, match="duplicate") as raised:
        altered_topic_configs({}, twice)
    assert raised.value.code is ErrorCode.INVALID_REQUEST


def test_a_dynamic_setting_of_a_broker_changes() -> None:
    changed = altered_broker_configs(
        {"max.connections": "5"},
        [Alteration("log.cleanup.policy", AlterOp.APPEND, "compact")],
        cluster_wide=False,
    )
    assert changed == {"max.connections": "5", "log.cleanup.policy": "delete,compact"}


@pytest.mark.parametrize(
    ("name", "value", "code", "message"),
    [
        ("num.partitions", "3", ErrorCode.INVALID_REQUEST, r"dynamically: \[num.partitions\]"),
        ("log.retention.hours", "3", ErrorCode.INVALID_REQUEST, "Cannot update these configs"),
        ("process.roles", "broker", ErrorCode.INVALID_REQUEST, "Cannot update these configs"),
        ("log.retention.ms", "x", ErrorCode.INVALID_REQUEST, "Not a number of type LONG"),
    ],
)
@pytest.mark.parametrize("cluster_wide", [True, False])
def test_a_wrong_change_of_a_broker_is_refused(
    name: str, value: str, code: ErrorCode, message: str, cluster_wide: bool
) -> None:
    with pytest.raises(KafkaError, match=message) as raised:
        altered_broker_configs(
            {}, [Alteration(name, AlterOp.SET, value)], cluster_wide=cluster_wide
        )
    assert raised.value.code is code


@pytest.mark.parametrize(
    "name",
    [
        "background.threads",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    ],
)
@pytest.mark.parametrize(
    ("value", "message"), [("0", "Value must be at least 1"), ("x", "Not a number of type INT")]
)
def test_a_running_broker_keeps_at_least_one_thread(name: str, value: str, message: str) -> None:
    with pytest.raises(KafkaError, match=message) as raised:
        altered_broker_configs({}, [Alteration(name, AlterOp.SET, value)], cluster_wide=True)
    assert raised.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "name", ["num.io.threads", "leader.replication.throttled.rate", "a.plugin"]
)
@pytest.mark.parametrize("cluster_wide", [True, False])
def test_a_setting_without_effect_changes_as_in_kafka(name: str, cluster_wide: bool) -> None:
    alteration = Alteration(name, AlterOp.SET, "3")
    assert altered_broker_configs({}, [alteration], cluster_wide=cluster_wide) == {name: "3"}


@pytest.mark.parametrize(
    "name", ["cordoned.log.dirs", "listener.name.inside.ssl.keystore.location"]
)
def test_a_setting_that_is_one_brokers_is_not_the_clusters(name: str) -> None:
    alteration = Alteration(name, AlterOp.SET, "3")
    assert altered_broker_configs({}, [alteration], cluster_wide=False) == {name: "3"}
    with pytest.raises(KafkaError, match="broker id must be specified") as raised:
        altered_broker_configs({}, [alteration], cluster_wide=True)
    assert raised.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("setting", ["plain.sasl.jaas.config", "sasl.enabled.mechanisms"])
def test_logins_that_would_stay_as_they_are_cannot_be_changed(setting: str) -> None:
    name = f"listener.name.inside.{setting}"
    with pytest.raises(KafkaError, match=r"Cannot update these configs dynamically") as refused:
        check_dynamic_broker_configs({name: "secret"}, cluster_wide=False)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert "secret" not in str(refused.value)
