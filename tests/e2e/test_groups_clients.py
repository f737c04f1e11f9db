"""Groups of real clients, each member in a process of its own, with one that is killed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from testkit.clients.base import Message
from testkit.clients.confluent import Confluent
from testkit.member_program import Task
from testkit.members import Member, Members
from testkit.process import BrokerProcess

PARTITIONS = 6
EACH = 20
"""Records for each partition at a time."""

# A broker that is soon sure that a member is dead.
IMPATIENT = {
    "group.initial.rebalance.delay.ms": "300",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
SOON_MS = 1_500
LONG_MS = 20_000
KAFKAS_LEAST_SESSION_MS = 6_000


@dataclass(frozen=True)
class Kind:
    """A client, and how it takes part in a group."""

    client: str
    protocol: str = "classic"
    strategy: str | None = None

    def __str__(self) -> str:
        return "-".join(filter(None, (self.client, self.protocol, self.strategy)))


ALL = [
    Kind("confluent-kafka"),
    Kind("confluent-kafka", protocol="consumer"),
    Kind("kafka-python"),
    Kind("aiokafka"),
]
COOPERATIVE = [
    Kind("confluent-kafka", strategy="cooperative-sticky"),
    Kind("kafka-python", strategy="cooperative-sticky"),
    Kind("confluent-kafka", protocol="consumer"),
]


@dataclass(frozen=True)
class Place:
    """A broker, and how long it lets a member be silent."""

    bootstrap: str
    session_ms: int


@pytest.fixture(scope="module")
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    given: str | None = request.config.getoption("--bootstrap", default=None)
    if given is not None:
        yield Place(given, KAFKAS_LEAST_SESSION_MS)
        return
    with BrokerProcess(tmp_path_factory.mktemp("impatient"), IMPATIENT) as broker:
        yield Place(broker.bootstrap, SOON_MS)
        assert broker.stop() == 0
        assert broker.tracebacks() == []


@pytest.fixture
def name(new_name: Callable[[], str], place: Place) -> str:
    """The name of a group and of the topic that it reads."""
    name = new_name()
    Confluent(place.bootstrap).create_topic(name, PARTITIONS)
    return name


@pytest.fixture
def members() -> Iterator[Members]:
    with Members() as members:
        yield members


def task(kind: Kind, place: Place, name: str, instance_id: str | None = None) -> Task:
    return Task(
        kind.client,
        place.bootstrap,
        name,
        name,
        place.session_ms,
        kind.protocol,
        instance_id,
        kind.strategy,
    )


def produce(place: Place, topic: str, round_: str) -> set[str]:
    """Some records for every partition; their values."""
    values = {f"{round_}-{number}" for number in range(PARTITIONS * EACH)}
    messages = [
        Message(value.encode(), partition=number % PARTITIONS)
        for number, value in enumerate(sorted(values))
    ]
    Confluent(place.bootstrap).produce(topic, messages)
    return values


@pytest.mark.parametrize("kind", ALL, ids=str)
def test_the_partitions_of_a_killed_member_go_to_the_others(
    kind: Kind, place: Place, name: str, members: Members
) -> None:
    three = [members.start(task(kind, place, name)) for _ in range(3)]
    members.wait_for_partitions(three, [2, 2, 2])
    first = produce(place, name, "first")
    members.wait_for_values(three, first)
    killed, *others = three
    killed.kill()
    second = produce(place, name, "second")
    members.wait_for_partitions(others, [3, 3])
    members.wait_for_values([killed, *others], first | second)
    assert_nothing_committed_came_again(killed, others)
    for member in others:
        member.leave()
    third = produce(place, name, "third")
    late = members.start(task(kind, place, name))
    members.wait_for_values([late], third)
    assert set(late.values) == third, "the group did not continue where it left off"


def assert_nothing_committed_came_again(killed: Member, others: list[Member]) -> None:
    again = set(killed.committed_values) & {value for member in others for value in member.values}
    assert again == set()


@pytest.mark.parametrize("kind", ALL, ids=str)
def test_a_static_member_that_comes_back_disturbs_nobody(
    kind: Kind, place: Place, name: str, members: Members
) -> None:
    patient = Place(place.bootstrap, LONG_MS)
    pair = [members.start(task(kind, patient, name, instance)) for instance in ("a", "b")]
    members.wait_for_partitions(pair, [3, 3])
    stays, goes = pair
    had = goes.partitions
    seen = len(stays.assignments), len(stays.revocations)
    if kind.protocol == "consumer":
        goes.leave()  # a dead one keeps its instance id for the whole session there
    else:
        goes.kill()
    back = members.start(task(kind, patient, name, "b"))
    members.wait_for_partitions([stays, back], [3, 3])
    values = produce(place, name, "only")
    members.wait_for_values([stays, back], values)
    assert back.partitions == had
    assert (len(stays.assignments), len(stays.revocations)) == seen


@pytest.mark.parametrize("kind", COOPERATIVE, ids=str)
def test_a_newcomer_takes_only_its_share(
    kind: Kind, place: Place, name: str, members: Members
) -> None:
    first = members.start(task(kind, place, name))
    members.wait_for_partitions([first], [6])
    second = members.start(task(kind, place, name))
    members.wait_for_partitions([first, second], [3, 3])
    assert first.revocations == [second.partitions]
    assert [] not in first.assignments[1:]
    values = produce(place, name, "only")
    members.wait_for_values([first, second], values)
    second.leave()
    members.wait_for_partitions([first], [6])
    assert len(first.revocations) == 1
