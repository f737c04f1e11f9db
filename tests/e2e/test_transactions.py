"""Transactions on the wire: what a read_committed reader sees, and when."""

from collections.abc import Callable

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchResponse, PartitionData
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from testkit.batches import values
from testkit.raw import Connection
from tests.e2e.asking import (
    FETCH,
    LATEST,
    LIST_OFFSETS,
    From,
    fetch,
    fetch_request,
    partitions_of,
    produce,
)
from tests.e2e.asking_groups import commit, committed, coordinated, fetch_offset
from tests.e2e.asking_transactions import (
    OLD_END,
    OLD_PRODUCE,
    READ_COMMITTED,
    Producer,
    add_offsets,
    add_partitions,
    commit_offset,
    ended,
    fetch_committed,
    new_transactional_producer,
    send,
    visible,
)
from tests.e2e.conftest import OwnBroker, Topics, create_topic

NewProducer = Callable[[], Producer]


@pytest.fixture
def new_producer(connection: Connection, new_name: Callable[[], str]) -> NewProducer:
    return lambda: new_transactional_producer(connection, new_name())


@pytest.fixture
def producer(new_producer: NewProducer) -> Producer:
    return new_producer()


def last_stable_offset(connection: Connection, topic: str) -> int:
    """The end of a partition as ListOffsets tells it to a read_committed reader."""
    place = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=READ_COMMITTED,
        topics=[ListOffsetsTopic(name=topic, partitions=[place])],
    )
    return connection.ask(request, ListOffsetsResponse, LIST_OFFSETS).topics[0].partitions[0].offset


# Reading


def test_an_open_transaction_is_not_read(
    connection: Connection, producer: Producer, topic: str
) -> None:
    produce(connection, topic, values(b"before"))
    assert send(connection, producer, topic, 0, "open") == 0
    produce(connection, topic, values(b"after"))
    seen = fetch_committed(connection, topic)
    assert visible(seen) == ["before"]
    assert (seen.last_stable_offset, seen.high_watermark) == (1, 3)
    assert last_stable_offset(connection, topic) == 1
    everything = fetch(connection, From(topic))
    assert visible(everything) == ["before", "open", "after"]
    ended(connection, producer, commit=True)
    seen = fetch_committed(connection, topic)
    assert visible(seen) == ["before", "open", "after"]
    assert seen.aborted_transactions == []
    assert last_stable_offset(connection, topic) == 4


def test_an_aborted_transaction_is_hidden(
    connection: Connection, producer: Producer, topic: str
) -> None:
    assert send(connection, producer, topic, 0, "aborted") == 0
    producer = ended(connection, producer, commit=False)
    assert send(connection, producer, topic, 0, "committed") == 0
    ended(connection, producer, commit=True)
    seen = fetch_committed(connection, topic)
    assert [each.first_offset for each in seen.aborted_transactions or []] == [0]
    assert visible(seen) == ["committed"]
    uncommitted = fetch(connection, From(topic))
    assert uncommitted.aborted_transactions in (None, [])


def abort_in_reverse(connection: Connection, topic: str, names: list[str]) -> PartitionData:
    """Transactions that end in another order than they began, with one that stays among them."""
    many = [new_transactional_producer(connection, name) for name in names]
    for number, producer in enumerate(many):
        assert send(connection, producer, topic, 0, f"begin-{number}") == 0
    produce(connection, topic, values(b"kept"))
    for number, producer in enumerate(many):
        assert send(connection, producer, topic, 1, f"again-{number}") == 0
    for producer in reversed(many):
        ended(connection, producer, commit=False)
    return fetch_committed(connection, topic)


def test_transactions_may_overlap(
    connection: Connection, new_name: Callable[[], str], topic: str
) -> None:
    seen = abort_in_reverse(connection, topic, [new_name() for _ in range(5)])
    assert {each.first_offset for each in seen.aborted_transactions or []} == {0, 1, 2, 3, 4}
    assert visible(seen) == ["kept"]


def test_aborted_transactions_are_reported_in_the_order_of_their_first_offsets(
    own_broker: OwnBroker,
) -> None:
    """Kafka tells them in the order of their ends, which not every client sorts."""
    with Connection(own_broker().bootstrap) as connection:
        create_topic(connection, "topic")
        seen = abort_in_reverse(connection, "topic", ["a", "b", "c", "d", "e"])
    assert [each.first_offset for each in seen.aborted_transactions or []] == [0, 1, 2, 3, 4]


def test_only_aborts_that_concern_the_fetched_range_are_reported(
    connection: Connection, producer: Producer, topic: str
) -> None:
    for _ in range(3):
        assert send(connection, producer, topic, 0, "aborted") == 0
        producer = ended(connection, producer, commit=False)
    whole = fetch_committed(connection, topic)
    assert [each.first_offset for each in whole.aborted_transactions or []] == [0, 2, 4]
    rest = fetch_committed(connection, topic, offset=4)
    assert [each.first_offset for each in rest.aborted_transactions or []] == [4]


def test_a_waiting_reader_wakes_when_the_transaction_ends(
    connect: Callable[[], Connection], producer: Producer, topic: str
) -> None:
    reading, writing = connect(), connect()
    assert send(writing, producer, topic, 0, "late") == 0
    request = fetch_request(
        From(topic), max_wait_ms=15_000, min_bytes=1, isolation_level=READ_COMMITTED
    )
    reading.send(request, FETCH)
    assert not reading.has_reply(within=0.1)
    ended(writing, producer, commit=True)
    _, answer = reading.receive(FetchResponse, FETCH)
    assert visible(partitions_of(answer)[0]) == ["late"]


def test_a_transaction_ends_in_all_its_partitions(
    connection: Connection, producer: Producer, new_topic: Topics
) -> None:
    topics = [new_topic() for _ in range(4)]
    for name in topics:
        assert send(connection, producer, name, 0, name) == 0
    ended(connection, producer, commit=True)
    assert [visible(fetch_committed(connection, name)) for name in topics] == [
        [name] for name in topics
    ]


def test_old_producers_add_their_partitions_themselves(
    connection: Connection, producer: Producer, topic: str
) -> None:
    for sequence, commit_it in enumerate([True, False, True]):
        assert add_partitions(connection, producer, topic) == [0]
        value = f"{sequence} {commit_it}"
        assert send(connection, producer, topic, sequence, value, version=OLD_PRODUCE) == 0
        ended(connection, producer, commit=commit_it, version=OLD_END)
    assert visible(fetch_committed(connection, topic)) == ["0 True", "2 True"]


def test_an_empty_transaction_leaves_no_mark(
    connection: Connection, producer: Producer, topic: str
) -> None:
    """Transaction version 2 lets a producer abort what it never began: it gets a new epoch."""
    after = ended(connection, producer, commit=False)
    assert after.epoch == producer.epoch + 1
    assert last_stable_offset(connection, topic) == 0


# Offsets


@pytest.mark.parametrize("commit_it", [True, False])
def test_offsets_count_when_their_transaction_commits(
    connection: Connection, producer: Producer, topic: str, commit_it: bool
) -> None:
    group = coordinated(connection, producer.transactional_id)
    commit(connection, group, topic, 1)
    assert commit_offset(connection, producer, group, topic, 2) == 0
    assert committed(connection, group, topic) == 1
    _, unstable = fetch_offset(connection, group, topic, require_stable=True)
    assert unstable is not None
    assert unstable.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    ended(connection, producer, commit=commit_it)
    assert committed(connection, group, topic) == (2 if commit_it else 1)
    _, stable = fetch_offset(connection, group, topic, require_stable=True)
    assert stable is not None
    assert stable.error_code == 0


def test_old_producers_add_their_offsets_themselves(
    connection: Connection, producer: Producer, topic: str
) -> None:
    group = coordinated(connection, producer.transactional_id)
    assert add_offsets(connection, producer, group) == 0
    assert commit_offset(connection, producer, group, topic, 7, version=3) == 0
    ended(connection, producer, commit=True, version=OLD_END)
    assert committed(connection, group, topic) == 7
