"""Reading a stretch of a partition: its end, gaps in it, and what goes wrong on the way."""

from collections.abc import Callable, Iterator

import pytest

from ottla.client import (
    Client,
    ClientSettings,
    ConnectionFailed,
    OffsetOutOfRange,
    Producer,
    TopicPartition,
)
from ottla.client.range_reader import RangeAnswer, read_range
from ottla.embedded import Broker
from ottla.records import Record, decode_batch, encode_batch
from ottla.wire.batch import headers
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import Message
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.client.fake_broker import FakeBroker, HangUp

T = TopicPartition("t", 0)


def batch(*offsets: int) -> bytes:
    """A batch with records at these offsets only, as compaction leaves it."""
    records = [Record(offset, 1000, None, b"%d" % offset) for offset in offsets]
    return encode_batch(records, base_offset=offsets[0])


def answer(data: PartitionData) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])


def log(*batches: bytes, end: int) -> Callable[[Message], Message]:
    """Answers fetches with the first batch that reaches the asked offset."""

    def fetched(request: Message) -> Message:
        assert isinstance(request, FetchRequest)
        offset = request.topics[0].partitions[0].fetch_offset
        for data in batches:
            (_, header), *_ = headers(memoryview(data))
            if header.last_offset >= offset:
                return answer(PartitionData(high_watermark=end, records=data))
        return answer(PartitionData(high_watermark=end, last_stable_offset=end))

    return fetched


@pytest.fixture
def fake() -> Iterator[FakeBroker]:
    with FakeBroker({FetchRequest: log(end=0)}) as broker:
        yield broker


@pytest.fixture
def client(fake: FakeBroker) -> Iterator[Client]:
    settings = ClientSettings(
        bootstrap_servers=fake.address, deadline=0.5, backoff=0.01, longest_backoff=0.05
    )
    with Client(settings) as client:
        yield client


def offsets(answers: Iterator[RangeAnswer], end: int) -> list[int]:
    """The offsets that a decoder keeps of the answers."""
    found = []
    for item in answers:
        for at, header in headers(item.batches):
            records = decode_batch(item.batches[at : at + header.size])
            found += [r.offset for r in records if item.start <= r.offset < end]
    return found


def test_a_stretch_is_read_from_its_start_to_its_end(fake: FakeBroker, client: Client) -> None:
    fake.answer(FetchRequest, log(batch(0, 1, 2), batch(3, 4, 5), batch(6, 7), end=8))
    assert offsets(read_range(client, T, 1, 7), 7) == [1, 2, 3, 4, 5, 6]


def test_gaps_are_passed_over(fake: FakeBroker, client: Client) -> None:
    fake.answer(FetchRequest, log(batch(2, 5), batch(40), end=41))
    assert offsets(read_range(client, T, 0, 41), 41) == [2, 5, 40]


def test_a_stretch_whose_last_offsets_are_gone_ends_with_the_batch_after_it(
    fake: FakeBroker, client: Client
) -> None:
    fake.answer(FetchRequest, log(batch(2), batch(40), end=41))
    assert offsets(read_range(client, T, 0, 30), 30) == [2]


def test_nothing_is_asked_after_the_end(fake: FakeBroker, client: Client) -> None:
    fake.answer(FetchRequest, log(batch(0, 1), batch(2, 3), end=4))
    assert offsets(read_range(client, T, 0, 2), 2) == [0, 1]
    assert len(fake.of(FetchRequest)) == 1


def test_batches_of_aborted_transactions_are_left_out(fake: FakeBroker, client: Client) -> None:
    aborted = encode_batch(
        [Record(1, 1000, None, b"1")],
        base_offset=1,
        producer_id=9,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    data = PartitionData(
        high_watermark=3,
        last_stable_offset=3,
        aborted_transactions=[AbortedTransaction(producer_id=9, first_offset=1)],
        records=batch(0) + aborted + batch(2),
    )
    fake.answer(FetchRequest, lambda _: answer(data))
    assert offsets(read_range(client, T, 0, 3, read_committed=True), 3) == [0, 2]


def test_a_lost_connection_and_a_moved_leader_are_tried_again(
    fake: FakeBroker, client: Client
) -> None:
    good = log(batch(0, 1), batch(2, 3), end=4)
    calls = iter(range(100))

    def unsteady(request: Message) -> Message:
        match next(calls):
            case 1:
                raise HangUp
            case 2:
                return answer(PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
            case _:
                return good(request)

    fake.answer(FetchRequest, unsteady)
    assert offsets(read_range(client, T, 0, 4), 4) == [0, 1, 2, 3]


def test_a_broker_that_stays_away_is_an_error(fake: FakeBroker, client: Client) -> None:
    def hang_up(_: Message) -> Message:
        raise HangUp

    fake.answer(FetchRequest, hang_up)
    with pytest.raises(ConnectionFailed):
        list(read_range(client, T, 0, 4))


def test_an_offset_that_is_not_there_is_an_error(fake: FakeBroker, client: Client) -> None:
    data = PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    fake.answer(FetchRequest, lambda _: answer(data))
    with pytest.raises(OffsetOutOfRange, match="no offset 7"):
        list(read_range(client, T, 7, 9))


def test_an_end_that_the_log_does_not_reach_is_an_error(fake: FakeBroker, client: Client) -> None:
    fake.answer(FetchRequest, log(batch(0, 1), end=2))
    with pytest.raises(OffsetOutOfRange, match="no offset 2"):
        list(read_range(client, T, 0, 9))


def test_bytes_that_are_no_batches_are_an_error(fake: FakeBroker, client: Client) -> None:
    fake.answer(FetchRequest, lambda _: answer(PartitionData(records=b"\0" * 100)))
    with pytest.raises(KafkaError, match="partition 0 of topic t, after offset 0: a batch of"):
        list(read_range(client, T, 0, 9))


def test_a_reader_that_is_given_up_does_not_disturb_the_client(
    fake: FakeBroker, client: Client
) -> None:
    fake.answer(FetchRequest, log(batch(0, 1), batch(2, 3), batch(4, 5), end=6))
    answers = read_range(client, T, 0, 6)
    next(answers)
    answers.close()  # type: ignore[attr-defined]  # a generator, which the caller need not know
    assert offsets(read_range(client, T, 4, 6), 6) == [4, 5]


def test_a_real_partition_is_read_whole(ottla_broker: Broker) -> None:
    with Client(ottla_broker.bootstrap_servers) as client:
        with Producer(client) as producer:
            for number in range(5000):
                producer.send("a-stretch", b"%d" % number, partition=0)
        where = TopicPartition("a-stretch", 0)
        answers = read_range(client, where, 100, 4900, max_bytes=10_000)
        assert offsets(answers, 4900) == list(range(100, 4900))
