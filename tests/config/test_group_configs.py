"""The settings of consumer groups; the answers were seen on Apache Kafka 4.3.0."""

import pytest

from ottla.config import BrokerSettings
from ottla.config.describe import ConfigSource, describe_group
from ottla.config.dynamic import Alteration, AlterOp, altered_group_configs
from ottla.config.group_configs import group_values
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
        ("share.auto.offset.reset", "earliest", "Unknown group config name"),
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
    assert values == {SESSION: 46_000, HEARTBEAT: 5_000, ASSIGNMENT: 1_000}


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
