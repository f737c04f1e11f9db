"""Producer ids, epochs and sequences, as an idempotent producer meets them."""

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceResponse
from testkit.batches import Batch, Plain
from testkit.process import BrokerProcess
from testkit.raw import Connection
from tests.e2e.asking import end_offset, new_producer, produce
from tests.e2e.conftest import OwnBroker, create_topic

LAST_SEQUENCE = 2**31 - 1


def send(
    connection: Connection,
    topic: str,
    producer: tuple[int, int],
    sequence: int,
    count: int = 1,
) -> PartitionProduceResponse:
    records = [Plain(str(sequence + number).encode()) for number in range(count)]
    batch = Batch(
        records, producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence
    )
    return produce(connection, topic, batch.build())


def outcome(answer: PartitionProduceResponse) -> tuple[int, int]:
    return answer.error_code, answer.base_offset


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_init_producer_id_gives_a_new_id(
    connection: Connection, version: int
) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    ids = set()
    for _ in range(3):
        answer = connection.ask(request, InitProducerIdResponse, version)
        assert (answer.error_code, answer.producer_epoch) == (0, 0)
        ids.add(answer.producer_id)
    assert len(ids) == 3


def test_sequences_follow_each_other(connection: Connection, topic: str) -> None:
    producer = new_producer(connection)
    assert outcome(send(connection, topic, producer, 0, 3)) == (0, 0)
    assert outcome(send(connection, topic, producer, 3, 2)) == (0, 3)
    assert outcome(send(connection, topic, producer, 5)) == (0, 5)
    assert end_offset(connection, topic) == 6


def test_a_duplicate_gets_its_first_offset_back(connection: Connection, topic: str) -> None:
    producer = new_producer(connection)
    for sequence in range(5):
        send(connection, topic, producer, sequence * 2, 2)
    for sequence in (0, 3, 4, 1):
        assert outcome(send(connection, topic, producer, sequence * 2, 2)) == (0, sequence * 2)
    assert end_offset(connection, topic) == 10


def test_only_the_last_five_batches_are_remembered(connection: Connection, topic: str) -> None:
    producer = new_producer(connection)
    for sequence in range(6):
        send(connection, topic, producer, sequence)
    answer = send(connection, topic, producer, 0)
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert outcome(send(connection, topic, producer, 1)) == (0, 1)
    assert end_offset(connection, topic) == 6


def test_a_gap_is_refused(connection: Connection, topic: str) -> None:
    producer = new_producer(connection)
    send(connection, topic, producer, 0)
    answer = send(connection, topic, producer, 2)
    assert outcome(answer) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert outcome(send(connection, topic, producer, 1)) == (0, 1)


def test_part_of_a_batch_is_no_duplicate(connection: Connection, topic: str) -> None:
    producer = new_producer(connection)
    send(connection, topic, producer, 0, 4)
    answer = send(connection, topic, producer, 0, 2)
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert end_offset(connection, topic) == 4


def test_an_unknown_producer_may_start_anywhere(connection: Connection, topic: str) -> None:
    producer = new_producer(connection)
    assert outcome(send(connection, topic, producer, 17)) == (0, 0)
    assert outcome(send(connection, topic, producer, 18)) == (0, 1)


def test_an_old_epoch_is_refused(connection: Connection, topic: str) -> None:
    producer_id, _ = new_producer(connection)
    assert outcome(send(connection, topic, (producer_id, 3), 0)) == (0, 0)
    answer = send(connection, topic, (producer_id, 2), 1)
    assert outcome(answer) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert end_offset(connection, topic) == 1


def test_a_new_epoch_starts_at_sequence_0(connection: Connection, topic: str) -> None:
    producer_id, _ = new_producer(connection)
    send(connection, topic, (producer_id, 0), 0, 5)
    answer = send(connection, topic, (producer_id, 1), 5)
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert outcome(send(connection, topic, (producer_id, 1), 0)) == (0, 5)


def test_sequences_wrap_after_the_largest(connection: Connection, topic: str) -> None:
    producer = new_producer(connection)
    assert outcome(send(connection, topic, producer, LAST_SEQUENCE - 1, 3)) == (0, 0)
    assert outcome(send(connection, topic, producer, 1)) == (0, 3)
    assert outcome(send(connection, topic, producer, LAST_SEQUENCE - 1, 3)) == (0, 0)


def test_a_producer_id_without_a_sequence_is_refused(connection: Connection, topic: str) -> None:
    producer_id, epoch = new_producer(connection)
    batch = Batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=-1).build()
    answer = produce(connection, topic, batch)
    assert answer.error_code == ErrorCode.INVALID_RECORD


def test_partitions_count_sequences_on_their_own(connection: Connection, topic: str) -> None:
    producer = new_producer(connection)
    assert outcome(send(connection, topic, producer, 0)) == (0, 0)
    answer = connection.ask(
        DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0, 1])]),
        DescribeProducersResponse,
        0,
    )
    known, unknown = answer.topics[0].partitions
    (active,) = known.active_producers
    assert (active.producer_id, active.producer_epoch) == producer
    assert (active.last_sequence, active.current_txn_start_offset) == (0, -1)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_producers_are_remembered_over_a_restart(own_broker: OwnBroker, ending: str) -> None:
    broker = own_broker()
    with Connection(broker.bootstrap) as connection:
        create_topic(connection, "remembered")
        producer = new_producer(connection)
        for sequence in range(3):
            send(connection, "remembered", producer, sequence)
    end(broker, ending)
    broker.start()
    with Connection(broker.bootstrap) as connection:
        assert outcome(send(connection, "remembered", producer, 2)) == (0, 2)
        assert outcome(send(connection, "remembered", producer, 1)) == (0, 1)
        gap = send(connection, "remembered", producer, 4)
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert outcome(send(connection, "remembered", producer, 3)) == (0, 3)
        assert new_producer(connection)[0] != producer[0]


def end(broker: BrokerProcess, ending: str) -> None:
    if ending == "kill":
        broker.kill()
    else:
        assert broker.stop() == 0
