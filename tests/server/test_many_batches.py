"""Produce requests with very many batches, or very large ones: appended in turns, none lost."""

from collections.abc import Iterator, Sequence

import pytest

from ottla.api.produce_many import MOST_READ_AT_ONCE
from ottla.embedded import Broker
from ottla.records import decode_batch
from ottla.wire.batch import TRANSACTIONAL
from ottla.wire.errors import ErrorCode
from ottla.wire.headers import KEPT_FRAME_BYTES
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.produce import MOST_PARTITIONS
from testkit.batches import Batch, Plain, values
from testkit.raw import ClosedError, Connection, frame, request_bytes
from tests.e2e.asking import FETCH, PRODUCE, From, fetch_request, partitions_of, produce
from tests.e2e.asking_transactions import OLD_PRODUCE, ended, new_transactional_producer
from tests.e2e.conftest import create_topic
from tests.server.inside import on_loop, running

MANY = MOST_READ_AT_ONCE + 100


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        with Connection(broker.bootstrap_servers, 60) as connection:
            create_topic(connection, "many", MANY)
        yield broker


@pytest.fixture
def connection(broker: Broker) -> Iterator[Connection]:
    with Connection(broker.bootstrap_servers, 60) as connection:
        yield connection


def request(
    topic: str, records: Sequence[tuple[int, bytes | None]], acks: int = -1, txn: str | None = None
) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=each) for index, each in records]
    part = TopicProduceData(name=topic, partition_data=data)
    return ProduceRequest(transactional_id=txn, acks=acks, timeout_ms=30_000, topic_data=[part])


def answers(answer: ProduceResponse) -> list[PartitionProduceResponse]:
    return [each for topic in answer.responses for each in topic.partition_responses]


def end_offsets(broker: Broker, topic: str, count: int) -> list[int]:
    partitions = running(broker).server.node.partitions
    return on_loop(
        broker, lambda: [partitions.find(topic, index).log.end_offset for index in range(count)]
    )


def contents(connection: Connection, topic: str, partition: int, offset: int) -> list[bytes | None]:
    asked = fetch_request(From(topic, offset, partition, max_bytes=1))
    (found,) = partitions_of(connection.ask(asked, FetchResponse, FETCH))
    assert found.records is not None
    return [record.value for record in decode_batch(found.records)]


def test_each_of_many_batches_gets_its_own_answer(broker: Broker, connection: Connection) -> None:
    before = end_offsets(broker, "many", MANY)
    records: list[tuple[int, bytes | None]] = [(n, values(b"of %d" % n)) for n in range(MANY)]
    records += [(MANY, values(b"x")), (7, values(b"again")), (8, None)]
    found = answers(connection.ask(request("many", records), ProduceResponse, PRODUCE))
    assert [each.index for each in found] == [index for index, _ in records]
    assert [each.base_offset for each in found[:MANY]] == before
    assert [each.error_code for each in found] == [0] * MANY + [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_RECORD,
    ]
    assert end_offsets(broker, "many", MANY) == [each + 1 for each in before]
    for index in (0, 7, MANY - 1):
        assert contents(connection, "many", index, before[index]) == [b"of %d" % index]


def test_many_topics_are_answered_as_many_partitions_are(connection: Connection) -> None:
    names = [f"unknown-{number}" for number in range(MANY)]
    topics = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(records=values(b"x"))])
        for name in names
    ]
    asked = ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)
    answer = connection.ask(asked, ProduceResponse, PRODUCE)
    assert [topic.name for topic in answer.responses] == names
    assert {each.error_code for each in answers(answer)} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_what_stands_behind_many_batches_comes_after_them(
    broker: Broker, connection: Connection
) -> None:
    """With acks=0 there is no answer to wait for: the order of the requests counts."""
    before = end_offsets(broker, "many", MANY)
    first = request("many", [(index, values(b"first")) for index in range(MANY)], acks=0)
    connection.send_bytes(frame(request_bytes(first, PRODUCE)))
    second = produce(connection, "many", values(b"second"), MANY - 1)
    assert (second.error_code, second.base_offset) == (0, before[-1] + 1)
    assert end_offsets(broker, "many", MANY)[:-1] == [each + 1 for each in before[:-1]]


@pytest.mark.parametrize("acks", [2, -2])
def test_many_batches_with_impossible_acks_are_refused(connection: Connection, acks: int) -> None:
    asked = request("many", [(index, values(b"x")) for index in range(MANY)], acks=acks)
    found = answers(connection.ask(asked, ProduceResponse, PRODUCE))
    assert [each.error_code for each in found] == [ErrorCode.INVALID_REQUIRED_ACKS] * MANY


def test_many_batches_that_are_cut_short_close_the_connection(
    broker: Broker, connection: Connection
) -> None:
    before = end_offsets(broker, "many", MANY)
    asked = request("many", [(index, values(b"x")) for index in range(MANY)])
    connection.send_bytes(frame(request_bytes(asked, PRODUCE)[:-3]))
    with pytest.raises(ClosedError):
        connection.receive_frame()
    assert end_offsets(broker, "many", MANY) == before


def test_more_partitions_than_a_request_may_have_close_the_connection(
    connection: Connection,
) -> None:
    asked = request("many", [(index, None) for index in range(MOST_PARTITIONS + 1)])
    connection.send_bytes(frame(request_bytes(asked, PRODUCE)))
    with pytest.raises(ClosedError):
        connection.receive_frame()


def in_transaction(producer_id: int, epoch: int) -> bytes:
    return Batch(
        records=[Plain(b"x")],
        attributes=TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
    ).build()


def test_many_batches_of_a_transaction_are_verified(broker: Broker, connection: Connection) -> None:
    producer = new_transactional_producer(connection, "of-many")
    batch = in_transaction(producer.producer_id, producer.epoch)
    records = [(index, batch) for index in range(MANY)]
    before = end_offsets(broker, "many", MANY)
    asked = request("many", records, txn="of-many")
    refused = answers(connection.ask(asked, ProduceResponse, OLD_PRODUCE))
    assert {each.error_code for each in refused} == {ErrorCode.TRANSACTION_ABORTABLE}
    assert end_offsets(broker, "many", MANY) == before
    found = answers(connection.ask(asked, ProduceResponse, PRODUCE))
    assert {each.error_code for each in found} == {0}
    ended(connection, producer, commit=True)
    nobodys = answers(connection.ask(request("many", records), ProduceResponse, PRODUCE))
    codes = {each.error_code for each in nobodys}
    assert codes == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}


def test_large_batches_keep_their_bytes_while_others_arrive(connection: Connection) -> None:
    """They wait in the buffer in which they were received; what follows must not overwrite it."""
    large = [values(b"%d" % n * 900_000) for n in range(4)]
    assert sum(map(len, large)) > KEPT_FRAME_BYTES
    asked = request("many", [(n, each) for n, each in enumerate(large)], acks=1)
    small = [request("many", [(0, values(b"after-%d" % n))], acks=1) for n in range(3)]
    connection.send_bytes(b"".join(frame(request_bytes(each, PRODUCE)) for each in (asked, *small)))
    (first, *_) = found = answers(connection.receive(ProduceResponse, PRODUCE)[1])
    assert [each.error_code for each in found] == [0] * 4
    for n in range(3):
        (after,) = answers(connection.receive(ProduceResponse, PRODUCE)[1])
        assert after.base_offset == first.base_offset + 1 + n
    for n, each in enumerate(found):
        assert contents(connection, "many", n, each.base_offset) == [b"%d" % n * 900_000]
