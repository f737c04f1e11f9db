"""Requests of transactional producers that Kafka refuses, and the codes it refuses them with."""

from collections.abc import Callable

import pytest

from ottla.embedded import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from testkit.raw import Connection
from tests.e2e.asking import end_offset
from tests.e2e.asking_groups import Joined, committed, coordinated, join_alone
from tests.e2e.asking_transactions import (
    OLD_END,
    OLD_PRODUCE,
    Producer,
    add_offsets,
    add_partitions,
    commit_offset,
    describe_transaction,
    end,
    ended,
    init_producer,
    new_transactional_producer,
    send,
)
from tests.e2e.conftest import create_topic

FOREIGN_PRODUCER = 1 << 50
LONGEST_TIMEOUT_MS = 900_000
BOTH_ENDS = pytest.mark.parametrize("version", [OLD_END, 5])


@pytest.fixture
def name(new_name: Callable[[], str]) -> str:
    """A transactional id."""
    return new_name()


@pytest.fixture
def producer(connection: Connection, name: str) -> Producer:
    return new_transactional_producer(connection, name)


def stranger(producer: Producer) -> Producer:
    """Someone else's producer id with this transactional id."""
    return Producer(producer.transactional_id, FOREIGN_PRODUCER, producer.epoch)


def nobody(producer: Producer) -> Producer:
    """This producer id with a transactional id that nobody uses."""
    return Producer(f"{producer.transactional_id}-other", producer.producer_id, producer.epoch)


# InitProducerId


def test_an_empty_transactional_id_is_none(connection: Connection) -> None:
    assert init_producer(connection, "").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [-1, 0, LONGEST_TIMEOUT_MS + 1])
def test_the_timeout_has_limits(
    connection: Connection, producer: Producer, timeout_ms: int
) -> None:
    answer = init_producer(connection, producer.transactional_id, timeout_ms=timeout_ms)
    assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_the_timeout_is_refused_before_there_is_a_coordinator(name: str) -> None:
    with Broker() as broker, Connection(broker.bootstrap_servers) as connection:
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=0)
        answer = connection.ask(request, InitProducerIdResponse, 5)
        assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
@pytest.mark.parametrize("is_transactional", [False, True])
def test_a_producer_states_id_and_epoch_or_neither(
    connection: Connection, name: str, producer_id: int, epoch: int, is_transactional: bool
) -> None:
    request = InitProducerIdRequest(
        transactional_id=name if is_transactional else None,
        transaction_timeout_ms=1000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    answer = connection.ask(request, InitProducerIdResponse, 5)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_new_epoch_is_given_only_to_the_producer_that_has_the_last(
    connection: Connection, producer: Producer
) -> None:
    again = init_producer(
        connection,
        producer.transactional_id,
        producer_id=producer.producer_id,
        epoch=producer.epoch,
    )
    assert (again.error_code, again.producer_epoch) == (0, producer.epoch + 1)
    for producer_id, epoch, error in [
        (FOREIGN_PRODUCER, producer.epoch, ErrorCode.PRODUCER_FENCED),
        (producer.producer_id, producer.epoch + 7, ErrorCode.PRODUCER_FENCED),
    ]:
        answer = init_producer(
            connection, producer.transactional_id, producer_id=producer_id, epoch=epoch
        )
        assert answer.error_code == error
    old = init_producer(
        connection,
        producer.transactional_id,
        producer_id=producer.producer_id,
        epoch=producer.epoch + 7,
        version=3,
    )
    assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


# AddPartitionsToTxn


def test_one_unknown_partition_keeps_the_others_out(
    connection: Connection, producer: Producer, topic: str
) -> None:
    codes = add_partitions(connection, producer, topic, [0, 1])
    assert sorted(codes) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    ]
    assert describe_transaction(connection, producer.transactional_id).topics == []


def test_only_the_producer_adds_partitions(
    connection: Connection, producer: Producer, topic: str
) -> None:
    mapping = [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert add_partitions(connection, nobody(producer), topic) == mapping
    assert add_partitions(connection, stranger(producer), topic) == mapping
    for epoch in (producer.epoch - 1, producer.epoch + 1):
        other = producer.with_epoch(epoch)
        assert add_partitions(connection, other, topic) == [ErrorCode.PRODUCER_FENCED]
        old = add_partitions(connection, other, topic, version=1)
        assert old == [ErrorCode.INVALID_PRODUCER_EPOCH]
    nameless = Producer("", producer.producer_id, producer.epoch)
    assert add_partitions(connection, nameless, topic) == [ErrorCode.INVALID_REQUEST]


def test_transactions_are_verified_without_being_changed(
    connection: Connection, producer: Producer, topic: str
) -> None:
    question = AddPartitionsToTxnTransaction(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=True,
        topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
    )
    request = AddPartitionsToTxnRequest(transactions=[question])
    answer = connection.ask(request, AddPartitionsToTxnResponse, 5)
    result = answer.results_by_transaction[0].topic_results[0].results_by_partition[0]
    assert result.partition_error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert describe_transaction(connection, producer.transactional_id).transaction_state == "Empty"


# EndTxn


@BOTH_ENDS
@pytest.mark.parametrize("commit", [False, True])
def test_only_the_producer_ends_its_transaction(
    connection: Connection, producer: Producer, topic: str, version: int, commit: bool
) -> None:
    assert add_partitions(connection, producer, topic) == [0]
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING

    def refused(who: Producer) -> int:
        return end(connection, who, commit=commit, version=version).error_code

    assert refused(nobody(producer)) == mapping
    assert refused(stranger(producer)) == mapping
    assert refused(producer.with_epoch(producer.epoch - 1)) == ErrorCode.PRODUCER_FENCED
    assert refused(producer.with_epoch(producer.epoch + 1)) == ErrorCode.PRODUCER_FENCED
    assert refused(Producer("", producer.producer_id, 0)) == ErrorCode.INVALID_REQUEST
    state = describe_transaction(connection, producer.transactional_id)
    assert state.transaction_state == "Ongoing"
    assert refused(producer) == 0


def test_old_versions_know_no_fenced_producers(
    connection: Connection, producer: Producer, topic: str
) -> None:
    add_partitions(connection, producer, topic)
    other = producer.with_epoch(producer.epoch + 1)
    answer = end(connection, other, commit=True, version=1)
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_there_must_be_something_to_commit(connection: Connection, producer: Producer) -> None:
    for version in (OLD_END, 5):
        answer = end(connection, producer, commit=True, version=version)
        assert answer.error_code == ErrorCode.INVALID_TXN_STATE
    answer = end(connection, producer, commit=False, version=OLD_END)
    assert answer.error_code == ErrorCode.INVALID_TXN_STATE


def test_an_end_cannot_be_taken_back(
    connection: Connection, producer: Producer, topic: str
) -> None:
    add_partitions(connection, producer, topic)
    ended(connection, producer, commit=True, version=OLD_END)
    assert end(connection, producer, commit=True, version=OLD_END).error_code == 0
    answer = end(connection, producer, commit=False, version=OLD_END)
    assert answer.error_code == ErrorCode.INVALID_TXN_STATE


def test_a_lost_answer_can_be_asked_for_again(
    connection: Connection, producer: Producer, topic: str
) -> None:
    assert send(connection, producer, topic, 0) == 0
    after = ended(connection, producer, commit=True)
    assert after.epoch == producer.epoch + 1
    again = end(connection, producer, commit=True)
    assert (again.error_code, again.producer_epoch) == (0, after.epoch)
    other = end(connection, producer, commit=False)
    assert other.error_code == ErrorCode.INVALID_TXN_STATE


# Produce


def test_a_partition_must_be_in_the_transaction(
    connection: Connection, producer: Producer, topic: str
) -> None:
    aborts = send(connection, producer, topic, 0, version=OLD_PRODUCE)
    assert aborts == ErrorCode.TRANSACTION_ABORTABLE
    state = send(connection, producer, topic, 0, version=OLD_PRODUCE - 1)
    assert state == ErrorCode.INVALID_TXN_STATE
    assert end_offset(connection, topic) == 0
    assert add_partitions(connection, producer, topic) == [0]
    assert send(connection, producer, topic, 0, version=OLD_PRODUCE) == 0


def test_without_verification_an_older_produce_needs_no_partition_added(name: str) -> None:
    with (
        Broker(transaction_partition_verification_enable=False) as broker,
        Connection(broker.bootstrap_servers) as connection,
    ):
        create_topic(connection, "topic")
        producer = new_transactional_producer(connection, name)
        assert send(connection, producer, "topic", 0, version=OLD_PRODUCE) == 0


def test_a_transaction_needs_its_id(connection: Connection, producer: Producer, topic: str) -> None:
    code = send(connection, producer, topic, 0, transactional_id=None)
    assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    code = send(connection, producer, topic, 0, transactional_id="someone-else")
    assert code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert end_offset(connection, topic) == 0


def test_a_fenced_producer_writes_nothing(
    connection: Connection, producer: Producer, topic: str
) -> None:
    assert send(connection, producer, topic, 0) == 0
    successor = new_transactional_producer(connection, producer.transactional_id)
    assert successor.epoch > producer.epoch
    written = end_offset(connection, topic)
    assert send(connection, producer, topic, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end_offset(connection, topic) == written
    assert add_partitions(connection, producer, topic) == [ErrorCode.PRODUCER_FENCED]
    assert end(connection, producer, commit=True).error_code == ErrorCode.PRODUCER_FENCED
    assert send(connection, successor, topic, 0) == 0


def test_sequences_in_a_transaction_have_no_gaps(
    connection: Connection, producer: Producer, topic: str
) -> None:
    assert send(connection, producer, topic, 0, "a", "b") == 0
    gap = send(connection, producer, topic, 3)
    assert gap == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(connection, producer, topic, 0, "a", "b") == 0
    assert end_offset(connection, topic) == 2
    assert send(connection, producer, topic, 2) == 0


# Offsets in a transaction


def test_only_the_producer_adds_offsets(connection: Connection, producer: Producer) -> None:
    group = coordinated(connection, producer.transactional_id)
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert add_offsets(connection, nobody(producer), group) == mapping
    assert add_offsets(connection, stranger(producer), group) == mapping
    other = producer.with_epoch(producer.epoch + 1)
    assert add_offsets(connection, other, group) == ErrorCode.PRODUCER_FENCED
    assert add_offsets(connection, other, group, version=1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_offsets_must_be_in_the_transaction(
    connection: Connection, producer: Producer, topic: str
) -> None:
    group = coordinated(connection, producer.transactional_id)
    code = commit_offset(connection, producer, group, topic, 1, version=4)
    assert code == ErrorCode.TRANSACTION_ABORTABLE
    assert commit_offset(connection, producer, group, topic, 1, version=3) == (
        ErrorCode.INVALID_TXN_STATE
    )
    assert add_offsets(connection, producer, group) == 0
    assert commit_offset(connection, producer, group, topic, 1, version=4) == 0


def test_members_are_checked_in_a_transaction_too(
    connection: Connection, producer: Producer, topic: str
) -> None:
    group = coordinated(connection, producer.transactional_id)
    member = join_alone(connection, group, instance_id="static")
    wrong = {
        Joined("nobody-1234", member.generation): ErrorCode.UNKNOWN_MEMBER_ID,
        Joined(member.member_id, member.generation + 1, "static"): ErrorCode.ILLEGAL_GENERATION,
        Joined("nobody-1234", member.generation, "static"): ErrorCode.FENCED_INSTANCE_ID,
    }
    for who, code in wrong.items():
        assert commit_offset(connection, producer, group, topic, 5, member=who) == code
    assert commit_offset(connection, producer, group, topic, 6, member=member) == 0
    ended(connection, producer, commit=True)
    assert committed(connection, group, topic) == 6


def test_offsets_need_a_group_a_topic_and_a_producer(
    connection: Connection, producer: Producer, topic: str
) -> None:
    group = coordinated(connection, producer.transactional_id)
    assert commit_offset(connection, producer, "", topic, 1) == ErrorCode.INVALID_GROUP_ID
    unknown = commit_offset(connection, producer, group, "no-such-topic", 1)
    assert unknown == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert commit_offset(connection, stranger(producer), group, topic, 1) == mapping
    other = producer.with_epoch(producer.epoch + 1)
    fenced = commit_offset(connection, other, group, topic, 1)
    assert fenced == ErrorCode.INVALID_PRODUCER_EPOCH
    assert committed(connection, group, topic) == -1


def test_an_unknown_partition_is_told_so_whoever_asks_and_joins_no_transaction(
    connection: Connection, producer: Producer, topic: str
) -> None:
    group = coordinated(connection, producer.transactional_id)
    for asking in (producer, stranger(producer), nobody(producer)):
        for named in (group, ""):
            answer = commit_offset(connection, asking, named, "no-such-topic", 1)
            assert answer == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    state = describe_transaction(connection, producer.transactional_id)
    assert (state.transaction_state, state.topics) == ("Empty", [])


def test_an_unknown_partition_does_not_keep_the_known_from_being_committed(
    connection: Connection, producer: Producer, topic: str
) -> None:
    group = coordinated(connection, producer.transactional_id)
    places = [
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=7)
        for index in (0, 99)
    ]
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=places)],
    )
    answer = connection.ask(request, TxnOffsetCommitResponse, 5)
    codes = {part.partition_index: part.error_code for part in answer.topics[0].partitions}
    assert codes == {0: ErrorCode.NONE, 99: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    ended(connection, producer, commit=True)
    assert committed(connection, group, topic) == 7


@pytest.mark.parametrize(
    ("version", "code"),
    [(OLD_PRODUCE, ErrorCode.NONE), (12, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)],
)
def test_a_transactions_first_batch_in_a_partition_has_the_first_sequence(
    connection: Connection, name: str, topic: str, version: int, code: ErrorCode
) -> None:
    """Transactions of version 2: a later one means that the first was lost on its way (KIP-890)."""
    producer = new_transactional_producer(connection, name)
    if version == OLD_PRODUCE:
        assert add_partitions(connection, producer, topic) == [0]
    assert send(connection, producer, topic, 5, version=version) == code


def test_a_producer_adds_no_internal_topic(connection: Connection, name: str) -> None:
    coordinated(connection, name)
    producer = new_transactional_producer(connection, name)
    assert add_partitions(connection, producer, "__consumer_offsets") == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ]
