"""The settings of groups of all kinds; the answers were seen on Apache Kafka 4.3.0."""

import pytest

from ottla.config import BrokerSettings
from ottla.config.describe import ConfigSource, describe_group
from ottla.config.dynamic import Alteration, AlterOp, altered_group_configs
from ottla.config.group_configs import duration_ms, group_values
from ottla.config.resolve import broker_values
from ottla.wire.errors import ErrorCode, KafkaError

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


def _altered(name: str, value: str | None, op: AlterOp = AlterOp.SET) -> dict[str, str]:
    return altered_group_configs({}, [Alteration(name, op, value)], broker_values(BrokerSettings()))


def test_set_and_delete() -> None:
    assert _altered(SESSION, "50000") == {SESSION: "50000"}
    assert _altered(ASSIGNMENT, "0") == {ASSIGNMENT: "0"}
    assert _altered("no.such", None, AlterOp.DELETE) == {}


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        (SESSION, "44999", "greater than or equal to group.consumer.min.session.timeout.ms"),
        (SESSION, "60001", "less than or equal to group.consumer.max.session.timeout.ms"),
        (HEARTBEAT, "4999", "greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        (HEARTBEAT, "15001", "less than or equal to group.consumer.max.heartbeat.interval.ms"),
        (ASSIGNMENT, "15001", "less than or equal to group.consumer.max.assignment.interval.ms"),
        (ASSIGNMENT, "-1", "Value must be at least 0"),
        (SESSION, "x", "Not a number of type INT"),
        ("consumer.session.timeout", "50000", "did you mean consumer.session.timeout.ms"),
        ("streams.num.standby.replicas", "3", "group.streams.max.standby.replicas"),
        ("streams.num.standby.replicas", "-1", "Value must be at least 0"),
        ("streams.session.timeout.ms", "44999", "group.streams.min.session.timeout.ms"),
        ("streams.session.timeout.ms", "60001", "group.streams.max.session.timeout.ms"),
        ("streams.heartbeat.interval.ms", "4999", "group.streams.min.heartbeat.interval.ms"),
        ("streams.heartbeat.interval.ms", "15001", "group.streams.max.heartbeat.interval.ms"),
        ("streams.assignment.interval.ms", "15001", "group.streams.max.assignment.interval.ms"),
        ("streams.initial.rebalance.delay.ms", "-1", "Value must be at least 0"),
        ("share.auto.offset.reset", "none", "must be either 'earliest', 'latest'"),
        ("share.auto.offset.reset", "by_duration:1h", "Not a duration"),
        ("share.auto.offset.reset", "by_duration:PT", "Not a duration"),
        ("share.isolation.level", "serializable", "must be one of"),
        ("share.renew.acknowledge.enable", "maybe", "either true or false"),
        ("share.session.timeout.ms", "44999", "group.share.min.session.timeout.ms"),
        ("share.heartbeat.interval.ms", "15001", "group.share.max.heartbeat.interval.ms"),
        ("share.assignment.interval.ms", "15001", "group.share.max.assignment.interval.ms"),
        ("share.record.lock.duration.ms", "14999", "group.share.min.record.lock.duration.ms"),
        ("share.record.lock.duration.ms", "999", "Value must be at least 1000"),
        ("share.delivery.count.limit", "11", "group.share.max.delivery.count.limit"),
        ("share.delivery.count.limit", "1", "Value must be at least 2"),
        ("share.partition.max.record.locks", "4001", "group.share.max.partition.max.record.locks"),
        ("retention.ms", "5", "Unknown group config name: retention.ms"),
    ],
)
def test_a_wrong_change_is_refused(name: str, value: str, complaint: str) -> None:
    with pytest.raises(KafkaError, match=complaint) as caught:
        _altered(name, value)
    assert caught.value.code == ErrorCode.INVALID_CONFIG


def test_a_session_is_longer_than_the_interval_of_its_heartbeats() -> None:
    settings = BrokerSettings(
        static={
            "group.consumer.min.session.timeout.ms": "5000",
            "group.consumer.max.heartbeat.interval.ms": "50000",
        }
    )
    change = Alteration(SESSION, AlterOp.SET, "5000")
    with pytest.raises(KafkaError, match=f"must be greater than {HEARTBEAT}"):
        altered_group_configs({}, [change], broker_values(settings))


def test_bounds_that_moved_since_still_hold() -> None:
    settings = BrokerSettings(static={"group.consumer.max.session.timeout.ms": "46000"})
    values = group_values({SESSION: "50000"}, broker_values(settings))
    assert (values[SESSION], values[HEARTBEAT], values[ASSIGNMENT]) == (46_000, 5_000, 1_000)


def test_share_groups_have_kafkas_defaults() -> None:
    values = group_values({}, broker_values(BrokerSettings()))
    assert {name: value for name, value in values.items() if name.startswith("share.")} == {
        "share.assignment.interval.ms": 1000,
        "share.auto.offset.reset": "latest",
        "share.delivery.count.limit": 5,
        "share.heartbeat.interval.ms": 5000,
        "share.isolation.level": "read_uncommitted",
        "share.partition.max.record.locks": 2000,
        "share.record.lock.duration.ms": 30_000,
        "share.renew.acknowledge.enable": True,
        "share.session.timeout.ms": 45_000,
    }


def test_streams_groups_have_kafkas_defaults() -> None:
    values = group_values({}, broker_values(BrokerSettings()))
    assert {name: value for name, value in values.items() if name.startswith("streams.")} == {
        "streams.assignment.interval.ms": 1000,
        "streams.heartbeat.interval.ms": 5000,
        "streams.initial.rebalance.delay.ms": 3000,
        "streams.num.standby.replicas": 0,
        "streams.session.timeout.ms": 45_000,
    }


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("PT1H", 3_600_000), ("P1DT1M", 86_460_000), ("PT1.5S", 1_500), ("pt0.001s", 1)],
)
def test_a_duration_is_read_as_java_does(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds
    assert _altered("share.auto.offset.reset", f"by_duration:{text}")


def test_what_a_group_does_not_set_it_has_from_the_broker() -> None:
    settings = BrokerSettings(static={"group.consumer.heartbeat.interval.ms": "7000"})
    found = {each.name: each for each in describe_group({SESSION: "50000"}, settings)}
    own, inherited = found[SESSION], found[HEARTBEAT]
    assert (own.value, own.source) == ("50000", ConfigSource.GROUP_CONFIG)
    assert [(each.name, each.value) for each in own.synonyms] == [
        (SESSION, "50000"),
        ("group.consumer.session.timeout.ms", "45000"),
    ]
    assert (inherited.value, inherited.source) == ("7000", ConfigSource.STATIC_BROKER_CONFIG)
