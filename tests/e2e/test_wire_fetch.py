"""Fetch: what is returned, how much of it, when, and each error. Sessions have their own file."""

import threading
import time
from collections.abc import Callable
from uuid import uuid4

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.fetch import FetchResponse, PartitionData
from testkit.batches import Batch, Plain, values
from testkit.raw import Connection
from testkit.waiting import stretched
from tests.e2e.asking import (
    FETCH,
    FETCH_BY_ID,
    From,
    fetch,
    fetch_request,
    partitions_of,
    produce,
)
from tests.e2e.conftest import Topics, create_topic, describe

READ_COMMITTED = 1


def sizes(records: bytes | None) -> list[int]:
    """The sizes of the batches in some records; the last may be cut off."""
    found = []
    at = 0
    while records and at < len(records):
        size = 12 + int.from_bytes(records[at + 8 : at + 12], "big")
        found.append(min(size, len(records) - at))
        at += size
    return found


def base_offsets(records: bytes | None) -> list[int]:
    """Where each batch in some records starts."""
    found = []
    at = 0
    while records and at < len(records):
        found.append(int.from_bytes(records[at : at + 8], "big"))
        at += 12 + int.from_bytes(records[at + 8 : at + 12], "big")
    return found


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_with_names_is_served(
    connection: Connection, topic: str, version: int
) -> None:
    batch = values(b"one", b"two")
    produce(connection, topic, batch)
    found = fetch(connection, From(topic), version=version)
    assert found.error_code == 0
    assert (found.high_watermark, found.last_stable_offset) == (2, 2)
    assert found.records is not None
    assert found.records[16:] == batch[16:]
    assert not found.aborted_transactions
    if version >= 5:
        assert found.log_start_offset == 0


@pytest.mark.parametrize("version", range(13, 19))
def test_every_version_with_ids_is_served(connection: Connection, topic: str, version: int) -> None:
    batch = values(b"one", b"two")
    produce(connection, topic, batch)
    topic_id = describe(connection, topic).topic_id
    answer = connection.ask(fetch_request(From(topic_id)), FetchResponse, version)
    assert answer.responses[0].topic_id == topic_id
    (found,) = partitions_of(answer)
    assert found.records is not None
    assert found.records[16:] == batch[16:]


def test_an_unknown_id_is_refused(connection: Connection) -> None:
    answer = connection.ask(fetch_request(From(uuid4())), FetchResponse, FETCH_BY_ID)
    assert answer.error_code == 0
    assert partitions_of(answer)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_unknown_name_or_partition_is_refused(
    connection: Connection, topic: str, new_name: Callable[[], str]
) -> None:
    for wanted in (From(new_name()), From(topic, partition=1), From(topic, partition=-1)):
        found = fetch(connection, wanted)
        assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert found.high_watermark == -1
        assert found.aborted_transactions == []


@pytest.mark.parametrize("offset", [4, 100, 2**62])
def test_an_offset_beyond_the_end_is_out_of_range(
    connection: Connection, topic: str, offset: int
) -> None:
    produce(connection, topic, values(b"a", b"b", b"c"))
    found = fetch(connection, From(topic, offset))
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert not found.records
    assert found.aborted_transactions is None


def test_a_negative_offset_is_out_of_range(connection: Connection, topic: str) -> None:
    assert fetch(connection, From(topic, -1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_end_itself_is_in_range_and_empty(connection: Connection, topic: str) -> None:
    produce(connection, topic, values(b"a", b"b", b"c"))
    found = fetch(connection, From(topic, 3))
    assert (found.error_code, found.records) == (0, b"")
    assert found.high_watermark == 3


def test_an_offset_inside_a_batch_gives_the_whole_batch(connection: Connection, topic: str) -> None:
    produce(connection, topic, values(b"a", b"b", b"c"))
    produce(connection, topic, values(b"d"))
    found = fetch(connection, From(topic, 1))
    assert base_offsets(found.records) == [0, 3]


def test_max_bytes_returns_the_first_batch_whole(connection: Connection, topic: str) -> None:
    large = values(b"x" * 5000)
    produce(connection, topic, large)
    produce(connection, topic, large)
    for limits in ({"max_bytes": 1}, {"max_bytes": 100}):
        found = fetch(connection, From(topic), **limits)
        assert sizes(found.records) == [len(large)]
    found = fetch(connection, From(topic, max_bytes=1))
    assert sizes(found.records) == [len(large)]


def test_partition_max_bytes_cuts_after_the_limit(connection: Connection, topic: str) -> None:
    batch = values(b"x" * 1000)
    for _ in range(10):
        produce(connection, topic, batch)
    limit = 3 * len(batch) + 10
    found = fetch(connection, From(topic, max_bytes=limit))
    assert found.records is not None
    assert 3 * len(batch) <= len(found.records) <= limit
    assert base_offsets(found.records)[:3] == [0, 1, 2]


def test_only_the_first_partition_may_pass_the_limit(
    connection: Connection, new_topic: Topics
) -> None:
    first, second = new_topic(), new_topic()
    for topic in (first, second):
        produce(connection, topic, values(b"x" * 5000))
    request = fetch_request(From(first), From(second), max_bytes=100)
    given, left = partitions_of(connection.ask(request, FetchResponse, FETCH))
    assert sizes(given.records) == [len(values(b"x" * 5000))]
    assert not left.records
    assert (left.error_code, left.high_watermark) == (0, 1)


def test_a_fetch_without_data_waits_as_long_as_it_may(connection: Connection, topic: str) -> None:
    started = time.monotonic()
    found = fetch(connection, From(topic), max_wait_ms=300, min_bytes=1)
    assert not found.records
    assert 0.29 <= time.monotonic() - started < stretched(5)


def test_a_waiting_fetch_is_answered_by_a_produce(
    connect: Callable[[], Connection], topic: str
) -> None:
    waiting, producing = connect(), connect()
    started = time.monotonic()
    waiting.send(fetch_request(From(topic), max_wait_ms=60_000, min_bytes=1), FETCH)
    produce(producing, topic, values(b"wake"))
    _, answer = waiting.receive(FetchResponse, FETCH)
    assert base_offsets(partitions_of(answer)[0].records) == [0]
    assert time.monotonic() - started < stretched(10)


def test_a_waiting_fetch_waits_for_its_min_bytes(
    connect: Callable[[], Connection], topic: str
) -> None:
    waiting, producing = connect(), connect()
    batch = values(b"x" * 1000)
    waiting.send(
        fetch_request(From(topic), max_wait_ms=60_000, min_bytes=3 * len(batch) - 10), FETCH
    )
    produce(producing, topic, batch)
    produce(producing, topic, batch)
    assert not waiting.has_reply(within=0.1)
    produce(producing, topic, batch)
    _, answer = waiting.receive(FetchResponse, FETCH)
    assert base_offsets(partitions_of(answer)[0].records) == [0, 1, 2]


def test_many_waiting_fetches_are_all_answered(
    connect: Callable[[], Connection], topic: str
) -> None:
    waiting = [connect() for _ in range(50)]
    for connection in waiting:
        connection.send(fetch_request(From(topic), max_wait_ms=60_000, min_bytes=1), FETCH)
    produce(connect(), topic, values(b"for all"))
    for connection in waiting:
        assert partitions_of(connection.receive(FetchResponse, FETCH)[1])[0].records


def test_any_of_its_partitions_answers_a_waiting_fetch(
    connect: Callable[[], Connection], new_topic: Topics
) -> None:
    topic = new_topic(partitions=3)
    waiting = connect()
    wanted = [From(topic, partition=number) for number in range(3)]
    waiting.send(fetch_request(*wanted, max_wait_ms=60_000, min_bytes=1), FETCH)
    produce(connect(), topic, values(b"here"), 1)
    _, answer = waiting.receive(FetchResponse, FETCH)
    filled = [p.partition_index for p in partitions_of(answer) if p.records]
    assert filled == [1]


def test_an_error_is_answered_at_once(connection: Connection, topic: str) -> None:
    started = time.monotonic()
    found = fetch(connection, From(topic, 99), max_wait_ms=60_000, min_bytes=1)
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert time.monotonic() - started < stretched(10)


@pytest.mark.parametrize("unknown", [From("no-such-topic"), From("", partition=7)])
def test_an_unknown_partition_waits_with_the_quiet_ones(
    connection: Connection, topic: str, unknown: From
) -> None:
    unknown = From(unknown.topic or topic, partition=unknown.partition)
    request = fetch_request(From(topic), unknown, max_wait_ms=300, min_bytes=1)
    started = time.monotonic()
    found = partitions_of(connection.ask(request, FetchResponse, FETCH))
    assert 0.29 <= time.monotonic() - started < stretched(5)
    assert sorted(each.error_code for each in found) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_an_unknown_partition_does_not_keep_others_from_being_answered(
    connect: Callable[[], Connection], topic: str
) -> None:
    waiting = connect()
    wanted = [From(topic), From(topic, partition=7)]
    waiting.send(fetch_request(*wanted, max_wait_ms=60_000, min_bytes=1), FETCH)
    produce(connect(), topic, values(b"wake"))
    known, unknown = partitions_of(waiting.receive(FetchResponse, FETCH)[1])
    assert known.records
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("beside", [[], [From("", 0), From("", 99)]])
def test_unknown_partitions_alone_or_beside_another_error_are_answered_at_once(
    connection: Connection, new_topic: Topics, beside: list[From]
) -> None:
    topics = [new_topic() for _ in beside]
    wanted = [From(topic, each.offset) for topic, each in zip(topics, beside, strict=True)]
    request = fetch_request(From("no-such-topic"), *wanted, max_wait_ms=60_000, min_bytes=1)
    started = time.monotonic()
    assert len(partitions_of(connection.ask(request, FetchResponse, FETCH))) == 1 + len(beside)
    assert time.monotonic() - started < stretched(10)


def test_a_topic_deleted_beside_quiet_ones_is_reported_at_once(
    connect: Callable[[], Connection], topic: str, new_name: Callable[[], str]
) -> None:
    waiting, admin = connect(), connect()
    name = new_name()
    create_topic(admin, name)
    wanted = [From(topic), From(name), From(topic, partition=7)]
    waiting.send(fetch_request(*wanted, max_wait_ms=15_000, min_bytes=1), FETCH)
    started = time.monotonic()
    admin.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), DeleteTopicsResponse, 5)
    assert len(partitions_of(waiting.receive(FetchResponse, FETCH)[1])) == 3
    assert time.monotonic() - started < stretched(10)


def test_a_waiting_fetch_is_answered_when_its_topic_is_deleted(
    connect: Callable[[], Connection], new_name: Callable[[], str]
) -> None:
    waiting, admin = connect(), connect()
    name = new_name()
    create_topic(admin, name)
    waiting.send(fetch_request(From(name), max_wait_ms=15_000, min_bytes=1), FETCH)
    admin.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), DeleteTopicsResponse, 5)
    _, answer = waiting.receive(FetchResponse, FETCH)
    assert partitions_of(answer)[0].error_code in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )


def test_the_leader_epoch_fences(connection: Connection, topic: str) -> None:
    produce(connection, topic, values(b"x"))
    epoch = describe(connection, topic).partitions[0].leader_epoch
    assert fetch(connection, From(topic, leader_epoch=epoch)).error_code == 0
    newer = fetch(connection, From(topic, leader_epoch=epoch + 1))
    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    if epoch > 0:
        older = fetch(connection, From(topic, leader_epoch=epoch - 1))
        assert older.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_diverging_epoch_is_reported(connection: Connection, topic: str) -> None:
    """KIP-595: a reader ahead of what its last epoch reached learns where the log ends."""
    produce(connection, topic, values(b"a", b"b"))
    epoch = describe(connection, topic).partitions[0].leader_epoch
    same = fetch(connection, From(topic, 2, last_epoch=epoch, leader_epoch=epoch))
    assert (same.error_code, same.diverging_epoch.end_offset) == (0, -1)
    ahead = fetch(connection, From(topic, 5, last_epoch=epoch, leader_epoch=epoch))
    assert ahead.error_code == 0
    assert (ahead.diverging_epoch.epoch, ahead.diverging_epoch.end_offset) == (epoch, 2)
    assert not ahead.records
    assert (ahead.high_watermark, ahead.last_stable_offset, ahead.log_start_offset) == (2, 2, 0)


def test_read_committed_sees_all_without_transactions(connection: Connection, topic: str) -> None:
    produce(connection, topic, values(b"a"))
    request = fetch_request(From(topic), isolation_level=READ_COMMITTED)
    (found,) = partitions_of(connection.ask(request, FetchResponse, FETCH))
    assert base_offsets(found.records) == [0]
    assert found.aborted_transactions == []


def test_a_partition_with_too_little_room_says_nothing_of_aborted_transactions(
    connection: Connection, new_topic: Topics
) -> None:
    """As in Kafka, which has an empty list where nothing was to be read."""
    first, second = new_topic(), new_topic()
    for name in (first, second):
        produce(connection, name, values(b"x" * 100))

    def aborted(wanted: From, max_bytes: int) -> object:
        request = fetch_request(
            From(first), wanted, max_bytes=max_bytes, isolation_level=READ_COMMITTED
        )
        _, found = partitions_of(connection.ask(request, FetchResponse, FETCH))
        assert not found.records
        return found.aborted_transactions

    assert aborted(From(second, max_bytes=10), 10_000) is None
    assert aborted(From(second), 1) == []
    assert aborted(From(second, 1), 10_000) == []


def test_large_logs_are_read_in_steps_without_gaps(
    connection: Connection, new_topic: Topics
) -> None:
    topic = new_topic(segment_bytes=str(1024 * 1024))
    batch = Batch([Plain(bytes([65 + n % 26]) * 100) for n in range(500)]).build()
    for _ in range(100):
        assert produce(connection, topic, batch).error_code == 0
    offset = 0
    while offset < 50_000:
        found = fetch(connection, From(topic, offset, max_bytes=300_000))
        for base in base_offsets_of_whole_batches(found):
            assert base == offset
            offset = base + 500
    assert fetch(connection, From(topic, offset)).records == b""


def base_offsets_of_whole_batches(found: PartitionData) -> list[int]:
    assert found.error_code == 0
    whole = [
        base
        for base, size in zip(base_offsets(found.records), sizes(found.records), strict=True)
        if size > 40_000
    ]
    assert whole, "a fetch must get on"
    return whole


def test_a_reader_follows_a_writer_in_order(connect: Callable[[], Connection], topic: str) -> None:
    reading, writing = connect(), connect()

    def write() -> None:
        for number in range(300):
            produce(writing, topic, values(str(number).encode()))

    writer = threading.Thread(target=write)
    writer.start()
    offset = 0
    while offset < 300:
        found = fetch(reading, From(topic, offset), max_wait_ms=5000, min_bytes=1)
        for base in base_offsets(found.records):
            assert base == offset
            offset += 1
    writer.join()
