"""What a producer promises: order, no doubles, and a plain end when it cannot continue."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client import Client, ClientSettings, KafkaError, Producer, Reader, TopicPartition
from ottla.client.admin import LATEST, Admin
from ottla.client.producer import RECORD_OVERHEAD, Delivered
from ottla.records import Codec, decode_batch
from ottla.records.hashing import partition_of
from ottla.wire.batch import read_header
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

from .fake_broker import FakeBroker, HangUp


class Failure(NamedTuple):
    """What goes wrong with one request: an error code or (None) a lost connection."""

    code: ErrorCode | None
    written: bool = False
    """True where the batch is in the log all the same, and only the answer is wrong."""


class Partition:
    """A fake partition: takes batches in sequence; requests may fail by their number.

    As in Kafka, the first batch of a producer that it does not know may have any sequence.
    """

    def __init__(self, failures: Mapping[int, Failure]) -> None:
        self.values: list[bytes | None] = []
        self._next_sequence: int | None = None
        self._failures = failures
        self._count = 0

    def produce(self, request: Message) -> ProduceResponse:
        assert isinstance(request, ProduceRequest)
        data = request.topic_data[0].partition_data[0].records
        assert data is not None
        failure = self._failures.get(self._count)
        self._count += 1
        if failure is None:
            return self._write(data)
        if failure.written:
            self._write(data)
        if failure.code is None:
            raise HangUp
        return self._answer(failure.code)

    def _write(self, data: bytes) -> ProduceResponse:
        header = read_header(memoryview(data))
        expected = header.base_sequence if self._next_sequence is None else self._next_sequence
        if header.base_sequence > expected:
            return self._answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        if header.base_sequence < expected:
            return self._answer(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        self.values += [record.value for record in decode_batch(data)]
        self._next_sequence = expected + header.record_count
        return self._answer(ErrorCode.NONE, header.base_sequence)

    @staticmethod
    def _answer(code: ErrorCode, base_offset: int = -1) -> ProduceResponse:
        result = PartitionProduceResponse(error_code=code, base_offset=base_offset)
        return ProduceResponse(
            responses=[TopicProduceResponse(name="t", partition_responses=[result])]
        )


def produce(answer: Callable[[Message], Message | None], count: int) -> Producer:
    """Send numbered records, one batch each, to a fake broker."""
    with FakeBroker({ProduceRequest: answer}) as broker:
        quick = ClientSettings(
            bootstrap_servers=broker.address, backoff=0.001, longest_backoff=0.001
        )
        with Client(quick) as client:
            producer = Producer(client, batch_bytes=1)
            for number in range(count):
                producer.send("t", b"%d" % number)
            producer.flush()
            return producer


retriable = st.sampled_from(
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        None,
    ]
)


@settings(max_examples=20, deadline=None)
@given(
    st.dictionaries(
        st.integers(0, 40), st.builds(Failure, retriable, st.booleans()), min_size=1, max_size=12
    )
)
def test_whatever_fails_on_the_way_nothing_is_lost_doubled_or_out_of_order(
    failures: dict[int, Failure],
) -> None:
    partition = Partition(failures)
    producer = produce(partition.produce, 25)
    assert partition.values == [b"%d" % number for number in range(25)]
    assert producer.acknowledged == 25


def test_a_final_error_ends_the_producer() -> None:
    partition = Partition({2: Failure(ErrorCode.MESSAGE_TOO_LARGE)})
    with (
        FakeBroker({ProduceRequest: partition.produce}) as broker,
        Client(broker.address) as client,
    ):
        producer = Producer(client, batch_bytes=1)
        for number in range(3):
            producer.send("t", b"%d" % number)
        with pytest.raises(KafkaError, match="partition 0 of topic t: MESSAGE_TOO_LARGE"):
            producer.flush()
        with pytest.raises(KafkaError):
            producer.send("t", b"later")
        with pytest.raises(KafkaError):
            producer.flush()
        assert producer.acknowledged == 2


def test_a_gap_without_a_failure_before_it_is_final() -> None:
    with pytest.raises(KafkaError) as caught:
        produce(Partition({0: Failure(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)}).produce, 1)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_retries_end_at_the_deadline() -> None:
    failures = dict.fromkeys(range(10_000), Failure(ErrorCode.NOT_ENOUGH_REPLICAS))
    with FakeBroker({ProduceRequest: Partition(failures).produce}) as broker:
        hasty = ClientSettings(bootstrap_servers=broker.address, deadline=0.05, backoff=0.001)
        with Client(hasty) as client:
            producer = Producer(client)
            producer.send("t", b"")
            with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
                producer.flush()


def test_without_acknowledgements_nothing_is_awaited() -> None:
    with FakeBroker({ProduceRequest: lambda _: None}) as broker, Client(broker.address) as client:
        with Producer(client, acks=0) as producer:
            producer.send("t", b"")
        assert producer.acknowledged == 1


def test_leaving_by_an_exception_sends_nothing() -> None:
    partition = Partition({})
    with (
        FakeBroker({ProduceRequest: partition.produce}) as broker,
        Client(broker.address) as client,
        suppress(ZeroDivisionError),
        Producer(client) as producer,
    ):
        producer.send("t", b"")
        raise ZeroDivisionError
    assert partition.values == []


def read_all(client: Client, topic: str) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
    ends = Admin(client).list_offsets(dict.fromkeys(Admin(client).partitions(topic), LATEST))
    until = {partition: end.offset for partition, end in ends.items()}
    found: dict[int, list[tuple[bytes | None, bytes | None]]] = {
        partition.partition: [] for partition in until
    }
    with Reader(client, dict.fromkeys(until, 0), until=until) as reader:
        for batch in reader:
            found[batch.partition] += [(record.key, record.value) for record in batch.records]
    return found


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_records_arrive_in_order_with_every_codec(
    client: Client, topic: str, codec: Codec, acks: int
) -> None:
    with Producer(client, acks=acks, codec=codec, batch_bytes=500) as producer:
        for number in range(300):
            producer.send(topic, b"%d" % number, partition=1)
    if acks == 0:
        # The connection's next reply comes after everything before it was written.
        client.metadata([])
    assert read_all(client, topic)[1] == [(None, b"%d" % number) for number in range(300)]


def test_keyed_records_go_where_the_java_client_sends_them(client: Client, topic: str) -> None:
    keys = [b"key-%d" % number for number in range(50)]
    with Producer(client) as producer:
        for key in keys:
            producer.send(topic, b"", key=key)
    for partition, records in read_all(client, topic).items():
        assert records == [(key, b"") for key in keys if partition_of(key, 3) == partition]


def test_keyless_records_fill_one_batch_before_another_partition_gets_some(
    client: Client, topic: str
) -> None:
    places: list[Delivered] = []
    with Producer(client, batch_bytes=10 * (1000 + RECORD_OVERHEAD)) as producer:
        for _ in range(30):
            producer.send(topic, b"x" * 1000, on_delivery=places.append)
    batches = [places[at : at + 10] for at in range(0, 30, 10)]
    assert [len({place.partition for place in batch}) for batch in batches] == [1, 1, 1]


def test_a_large_record_does_not_take_small_ones_down_with_it(client: Client, topic: str) -> None:
    places: list[Delivered] = []
    producer = Producer(client)
    producer.send(topic, b"small", partition=0, on_delivery=places.append)
    producer.send(topic, b"x" * 2_000_000, partition=0)
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        producer.flush()
    assert places == [Delivered(topic, 0, 0)]


def test_every_record_can_be_told_its_place(client: Client, topic: str) -> None:
    places: list[Delivered] = []
    with Producer(client) as producer:
        for _ in range(3):
            producer.send(topic, b"", partition=2, on_delivery=places.append)
        assert places == []
    assert places == [Delivered(topic, 2, offset) for offset in range(3)]


def test_null_values_headers_and_timestamps_arrive(client: Client, topic: str) -> None:
    headers = [("a", b"1"), ("a", None), ("ä", b"")]
    with Producer(client) as producer:
        producer.send(topic, None, key=b"", headers=headers, timestamp=1234, partition=0)
    where = TopicPartition(topic, 0)
    with Reader(client, {where: 0}, until={where: 1}) as reader:
        (batch,) = list(reader)
    (record,) = batch.records
    assert record == (0, 1234, b"", None, headers)


def test_a_broker_that_may_create_topics_is_asked_to(client: Client) -> None:
    with Producer(client) as producer:
        producer.send("client.created_by_producing", b"")
    assert client.topic("client.created_by_producing").leaders


def test_much_that_is_collected_goes_out_before_batches_are_full(
    client: Client, topic: str
) -> None:
    producer = Producer(client, batch_bytes=1 << 20, buffer_bytes=10_000)
    for number in range(300):
        producer.send(topic, b"x" * 100, partition=number % 3)
    assert producer._buffered <= 10_000
    producer.flush()
    assert sum(map(len, read_all(client, topic).values())) == 300
