"""kill -9 of the broker under groups: what it has confirmed is there when it is back."""

from collections.abc import Iterator

import pytest

from testkit.clients.base import Message
from testkit.clients.confluent import Confluent
from testkit.member_program import Task
from testkit.members import Members
from testkit.raw import Connection
from tests.e2e.asking_groups import (
    Joined,
    commit,
    committed,
    consumer_heartbeat,
    coordinated,
    describe_group,
    heartbeat,
    join_alone,
    join_consumer_group,
)
from tests.e2e.conftest import OwnBroker, create_topic

SETTINGS = {
    # Without it, kafka-python divides partitions before it knows of them, and leaves it at that.
    "group.initial.rebalance.delay.ms": "300",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
    # Few, so that a restart of the broker under test is short.
    "offsets.topic.num.partitions": "4",
}
PARTITIONS = 4
GROUPS = 20
ROUNDS = 3
SESSION_MS = 30_000


@pytest.fixture
def members() -> Iterator[Members]:
    with Members() as members:
        yield members


def test_every_confirmed_commit_survives(own_broker: OwnBroker) -> None:
    broker = own_broker(SETTINGS)
    with Connection(broker.bootstrap) as connection:
        create_topic(connection, "topic")
    for round_ in range(1, ROUNDS + 1):
        with Connection(broker.bootstrap) as connection:
            for number in range(GROUPS):
                group = coordinated(connection, f"group-{number}")
                assert commit(connection, group, "topic", round_ * 1000 + number) == 0
            broker.kill()
        broker.start()
        with Connection(broker.bootstrap) as connection:
            found = [
                committed(connection, coordinated(connection, f"group-{number}"), "topic")
                for number in range(GROUPS)
            ]
        assert found == [round_ * 1000 + number for number in range(GROUPS)]


def test_members_of_both_protocols_are_still_members(own_broker: OwnBroker) -> None:
    broker = own_broker(SETTINGS)
    with Connection(broker.bootstrap) as connection:
        create_topic(connection, "topic")
        classic = join_alone(connection, coordinated(connection, "classic"), instance_id="static")
        dynamic = join_alone(connection, coordinated(connection, "dynamic"))
        coordinated(connection, "consumer")
        epoch = join_consumer_group(connection, "consumer", "member", ["topic"]).member_epoch
        before = [describe_group(connection, group) for group in ("classic", "dynamic")]
    broker.kill()
    broker.start()
    with Connection(broker.bootstrap) as connection:
        assert heartbeat(connection, coordinated(connection, "classic"), classic) == 0
        assert heartbeat(connection, coordinated(connection, "dynamic"), dynamic) == 0
        coordinated(connection, "consumer")
        answer = consumer_heartbeat(connection, "consumer", "member", epoch, owned=[])
        assert (answer.error_code, answer.member_epoch) == (0, epoch)
        after = [describe_group(connection, group) for group in ("classic", "dynamic")]
        assert after == before
        member = Joined("member", epoch)
        assert commit(connection, "consumer", "topic", 5, member=member) == 0


@pytest.mark.parametrize(
    ("library", "protocol"),
    [
        ("confluent-kafka", "classic"),
        ("confluent-kafka", "consumer"),
        ("kafka-python", "classic"),
        ("aiokafka", "classic"),
    ],
)
def test_consumers_continue_when_the_broker_is_back(
    own_broker: OwnBroker, members: Members, library: str, protocol: str
) -> None:
    broker = own_broker(SETTINGS)
    user = Confluent(broker.bootstrap)
    user.create_topic("topic", PARTITIONS)
    task = Task(library, broker.bootstrap, "group", "topic", SESSION_MS, protocol)
    pair = [members.start(task) for _ in range(2)]
    members.wait_for_partitions(pair, [2, 2])
    wanted: set[str] = set()
    for round_ in range(2):
        values = [f"{round_}-{number}" for number in range(200)]
        places = enumerate(values)
        user.produce("topic", [Message(v.encode(), partition=n % PARTITIONS) for n, v in places])
        wanted |= set(values)
        members.wait_for_values(pair, wanted)
        if round_ == 0:
            broker.kill()
            broker.start()
    received = [value for member in pair for value in member.values]
    assert sorted(received) == sorted(wanted), "a committed record came again"
