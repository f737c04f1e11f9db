"""Transactions that end without their producer, and those that an administrator has to end."""

import time
from collections.abc import Callable

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from testkit.raw import Connection
from testkit.waiting import stretched
from tests.e2e.asking_transactions import (
    Producer,
    describe_transaction,
    end,
    ended,
    fetch_committed,
    new_transactional_producer,
    send,
    visible,
)
from tests.e2e.conftest import OwnBroker, create_topic

SOON_MS = 500
# Kafka looks for late transactions every ten seconds.
LATE_SECONDS = 20.0


@pytest.fixture
def producer(connection: Connection, new_name: Callable[[], str]) -> Producer:
    return new_transactional_producer(connection, new_name())


def producers_of(connection: Connection, topic: str) -> list[ProducerState]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    answer = connection.ask(request, DescribeProducersResponse, 0)
    return answer.topics[0].partitions[0].active_producers


def listed(connection: Connection, request: ListTransactionsRequest) -> dict[str, str]:
    """The states of the transactional ids that a ListTransactions finds."""
    answer = connection.ask(request, ListTransactionsResponse, 2)
    assert answer.error_code == 0
    return {each.transactional_id: each.transaction_state for each in answer.transaction_states}


def write_marker(
    connection: Connection, topic: str, producer: ProducerState, epoch: int, partition: int = 0
) -> int:
    """Abort what a producer has open in a partition, in a coordinator's place; the error code."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        coordinator_epoch=epoch,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    answer = connection.ask(request, WriteTxnMarkersResponse, 1)
    return answer.markers[0].topics[0].partitions[0].error_code


# The clock


def test_a_late_transaction_is_aborted(
    connection: Connection, new_name: Callable[[], str], topic: str
) -> None:
    producer = new_transactional_producer(connection, new_name(), timeout_ms=SOON_MS)
    assert send(connection, producer, topic, 0, "late") == 0
    deadline = time.monotonic() + stretched(LATE_SECONDS)
    while fetch_committed(connection, topic, max_wait_ms=SOON_MS, min_bytes=1).records == b"":
        assert time.monotonic() < deadline
    assert visible(fetch_committed(connection, topic)) == []
    state = describe_transaction(connection, producer.transactional_id)
    assert state.transaction_state == "CompleteAbort"
    assert state.producer_epoch > producer.epoch
    assert end(connection, producer, commit=True).error_code == ErrorCode.INVALID_TXN_STATE
    assert send(connection, producer, topic, 1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_successor_ends_what_was_left_open(
    connection: Connection, producer: Producer, topic: str
) -> None:
    assert send(connection, producer, topic, 0, "left") == 0
    successor = new_transactional_producer(connection, producer.transactional_id)
    assert send(connection, successor, topic, 0, "new") == 0
    ended(connection, successor, commit=True)
    assert visible(fetch_committed(connection, topic)) == ["new"]


# Who asks


def test_a_transaction_is_described(connection: Connection, producer: Producer, topic: str) -> None:
    name = producer.transactional_id
    assert describe_transaction(connection, name).transaction_state == "Empty"
    assert send(connection, producer, topic, 0) == 0
    state = describe_transaction(connection, name)
    assert (state.transaction_state, state.producer_id) == ("Ongoing", producer.producer_id)
    assert [(part.topic, part.partitions) for part in state.topics] == [(topic, [0])]
    ended(connection, producer, commit=True)
    assert describe_transaction(connection, name).transaction_state == "CompleteCommit"


def test_unknown_transactional_ids_are_not_found(
    connection: Connection, producer: Producer
) -> None:
    unknown = describe_transaction(connection, f"{producer.transactional_id}-other")
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert describe_transaction(connection, "").error_code == ErrorCode.INVALID_REQUEST


def test_transactions_are_listed_by_state_producer_age_and_pattern(
    connection: Connection, producer: Producer, topic: str
) -> None:
    name = producer.transactional_id
    assert send(connection, producer, topic, 0) == 0
    assert listed(connection, ListTransactionsRequest())[name] == "Ongoing"
    by_producer = ListTransactionsRequest(producer_id_filters=[producer.producer_id])
    assert listed(connection, by_producer) == {name: "Ongoing"}
    assert name in listed(connection, ListTransactionsRequest(state_filters=["Ongoing"]))
    assert name not in listed(connection, ListTransactionsRequest(state_filters=["Empty"]))
    assert name not in listed(connection, ListTransactionsRequest(duration_filter=3_600_000))
    pattern = ListTransactionsRequest(transactional_id_pattern=f"{name[:-1]}.")
    assert listed(connection, pattern) == {name: "Ongoing"}


def test_filters_that_make_no_sense_are_reported(
    connection: Connection, producer: Producer
) -> None:
    request = ListTransactionsRequest(state_filters=["Ongoing", "Nonsense"])
    answer = connection.ask(request, ListTransactionsResponse, 2)
    assert answer.unknown_state_filters == ["Nonsense"]
    request = ListTransactionsRequest(transactional_id_pattern="(")
    answer = connection.ask(request, ListTransactionsResponse, 2)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


# Who ends it from outside


def test_an_open_transaction_is_aborted_by_its_marker(
    connection: Connection, producer: Producer, topic: str
) -> None:
    assert send(connection, producer, topic, 0, "stuck") == 0
    (state,) = producers_of(connection, topic)
    assert (state.producer_id, state.current_txn_start_offset) == (producer.producer_id, 0)
    assert write_marker(connection, topic, state, 0, partition=9) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert write_marker(connection, "no-such-topic", state, 0) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert write_marker(connection, topic, state, state.coordinator_epoch) == 0
    assert producers_of(connection, topic)[0].current_txn_start_offset == -1
    seen = fetch_committed(connection, topic)
    assert (visible(seen), seen.last_stable_offset) == ([], 2)


def test_a_marker_of_an_old_coordinator_or_producer_is_refused(
    connection: Connection, producer: Producer, topic: str
) -> None:
    producer = new_transactional_producer(connection, producer.transactional_id)
    assert send(connection, producer, topic, 0) == 0
    (state,) = producers_of(connection, topic)
    assert state.producer_epoch == 1
    assert write_marker(connection, topic, state, 5) == 0
    after = producers_of(connection, topic)[0]
    assert after.coordinator_epoch == 5
    assert write_marker(connection, topic, after, 4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    after.producer_epoch -= 1
    assert write_marker(connection, topic, after, 5) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_transaction_that_no_coordinator_knows_hangs_until_it_is_aborted(
    own_broker: OwnBroker,
) -> None:
    with Connection(own_broker().bootstrap) as connection:
        create_topic(connection, "topic")
        lost = new_transactional_producer(connection, "lost")
        assert send(connection, lost, "topic", 0, "hangs") == 0
        forget = DeleteTopicsRequest(topic_names=["__transaction_state"], timeout_ms=30_000)
        connection.ask(forget, DeleteTopicsResponse, 5)
        other = new_transactional_producer(connection, "other")
        assert send(connection, other, "topic", 0, "waits") == 0
        ended(connection, other, commit=True)
        assert visible(fetch_committed(connection, "topic")) == []
        known = list(listed(connection, ListTransactionsRequest()))
        open_in = producers_of(connection, "topic")
        hanging = [state for state in open_in if state.current_txn_start_offset >= 0]
        assert known == ["other"]
        assert [state.producer_id for state in hanging] == [lost.producer_id]
        assert write_marker(connection, "topic", hanging[0], hanging[0].coordinator_epoch) == 0
        assert visible(fetch_committed(connection, "topic")) == ["waits"]


@pytest.mark.parametrize("again", [None, 1, 2, 3], ids=lambda count: f"recreated with {count}")
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_transaction_ends_though_its_topic_was_deleted_and_recreated(
    connection: Connection, new_name: Callable[[], str], again: int | None, commit: bool
) -> None:
    """Partitions that the metadata no longer has need no marker."""
    topic, other = new_name(), new_name()
    create_topic(connection, topic, partitions=3)
    create_topic(connection, other)
    producer = new_transactional_producer(connection, new_name())
    for partition in range(3):
        assert send(connection, producer, topic, 0, partition=partition) == 0
    assert send(connection, producer, other, 0, "kept") == 0
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
    connection.ask(request, DeleteTopicsResponse, 5)
    if again is not None:
        create_topic(connection, topic, partitions=again)
    producer = ended(connection, producer, commit=commit)
    assert send(connection, producer, other, 0, "next") == 0
    ended(connection, producer, commit=True)
    expected = ["kept", "next"] if commit else ["next"]
    assert visible(fetch_committed(connection, other)) == expected


def test_producers_of_a_topic_that_cannot_be_are_not_described(connection: Connection) -> None:
    request = DescribeProducersRequest(topics=[TopicRequest(name="a b", partition_indexes=[0])])
    (part,) = connection.ask(request, DescribeProducersResponse, 0).topics[0].partitions
    assert part.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
