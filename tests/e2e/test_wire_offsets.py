"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where a partition begins, ends and parts."""

from collections.abc import Callable

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from testkit.batches import Batch, Plain, now_ms, values
from testkit.raw import Connection
from tests.e2e.asking import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    From,
    fetch,
    list_offset,
    produce,
)
from tests.e2e.asking_groups import coordinated
from tests.e2e.conftest import OwnBroker, Topics, create_topic, describe

EARLIEST_LOCAL = -4
LATEST_TIERED = -5
NOT_TIERED = -6


def delete_before(
    connection: Connection, topic: str, offset: int, partition: int = 0
) -> DeleteRecordsPartitionResult:
    part = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[part])], timeout_ms=10_000
    )
    answer = connection.ask(request, DeleteRecordsResponse, 2)
    return answer.topics[0].partitions[0]


def epoch_end(
    connection: Connection, topic: str, epoch: int, current: int = -1, version: int = 4
) -> EpochEndOffset:
    part = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[part])]
    )
    answer = connection.ask(request, OffsetForLeaderEpochResponse, version)
    return answer.topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_of_list_offsets_is_served(
    connection: Connection, topic: str, version: int
) -> None:
    produce(connection, topic, values(b"a", b"b"))
    first = list_offset(connection, topic, EARLIEST, version=version)
    last = list_offset(connection, topic, LATEST, version=version)
    assert (first.offset, first.timestamp, first.error_code) == (0, -1, 0)
    assert (last.offset, last.timestamp, last.error_code) == (2, -1, 0)
    if version >= 4:
        assert last.leader_epoch == describe(connection, topic).partitions[0].leader_epoch


@pytest.mark.parametrize(
    ("place", "first"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (NOT_TIERED, 11)],
)
def test_a_place_is_unknown_to_versions_before_it(
    connection: Connection, topic: str, place: int, first: int
) -> None:
    early = list_offset(connection, topic, place, version=first - 1)
    assert (early.error_code, early.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)
    assert list_offset(connection, topic, place, version=first).error_code == 0


def test_an_empty_partition_begins_and_ends_at_0(connection: Connection, topic: str) -> None:
    assert list_offset(connection, topic, EARLIEST).offset == 0
    assert list_offset(connection, topic, LATEST).offset == 0
    nothing = list_offset(connection, topic, MAX_TIMESTAMP)
    assert (nothing.error_code, nothing.offset, nothing.timestamp) == (0, -1, -1)
    by_time = list_offset(connection, topic, 0)
    assert (by_time.error_code, by_time.offset, by_time.timestamp) == (0, -1, -1)


def test_time_is_looked_up_inside_a_batch(connection: Connection, topic: str) -> None:
    start = now_ms() - 100_000
    for number in range(3):
        records = [Plain(timestamp_delta=10 * step) for step in range(5)]
        produce(connection, topic, Batch(records, base_timestamp=start + 50 * number).build())
    for wanted, offset in [(0, 0), (start, 0), (start + 1, 1), (start + 70, 7), (start + 71, 8)]:
        found = list_offset(connection, topic, wanted)
        assert (found.offset, found.timestamp) == (offset, start + 10 * offset)
    assert list_offset(connection, topic, start + 141).offset == -1


def test_time_need_not_grow_with_offsets(connection: Connection, topic: str) -> None:
    start = now_ms() - 100_000
    for step in (10, 50, 20, 40, 30):
        produce(connection, topic, Batch(base_timestamp=start + step).build())
    assert list_offset(connection, topic, start + 15).offset == 1
    assert list_offset(connection, topic, start + 51).offset == -1
    largest = list_offset(connection, topic, MAX_TIMESTAMP)
    assert (largest.offset, largest.timestamp) == (1, start + 50)


def test_the_largest_timestamp_inside_a_batch_is_found(connection: Connection, topic: str) -> None:
    start = now_ms() - 100_000
    deltas = [0, 30, 10, 30, 20]
    records = [Plain(timestamp_delta=delta) for delta in deltas]
    produce(connection, topic, Batch(records, base_timestamp=start).build())
    found = list_offset(connection, topic, MAX_TIMESTAMP)
    assert (found.offset, found.timestamp) == (1, start + 30)


def test_time_is_found_in_every_segment(connection: Connection, new_topic: Topics) -> None:
    topic = new_topic(segment_bytes="1048576", index_interval_bytes="1000")
    start = now_ms() - 1_000_000
    for number in range(40):
        records = [Plain(b"x" * 1000, timestamp_delta=step) for step in range(100)]
        produce(connection, topic, Batch(records, base_timestamp=start + 100 * number).build())
    for offset in (0, 1, 99, 100, 1050, 1051, 2099, 3333, 3999):
        found = list_offset(connection, topic, start + offset)
        assert (found.offset, found.timestamp) == (offset, start + offset)
    assert list_offset(connection, topic, start + 4000).offset == -1


def test_without_tiers_the_local_log_is_the_log(connection: Connection, topic: str) -> None:
    produce(connection, topic, values(b"a"))
    assert list_offset(connection, topic, EARLIEST_LOCAL, version=9).offset == 0
    assert list_offset(connection, topic, LATEST_TIERED, version=9).offset == -1


def test_unknown_partitions_have_no_offsets(
    connection: Connection, topic: str, new_name: Callable[[], str]
) -> None:
    for name, partition in ((topic, 1), (topic, -1), (new_name(), 0)):
        found = list_offset(connection, name, LATEST, partition)
        assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert found.offset == -1


def test_the_leader_epoch_fences_list_offsets(connection: Connection, topic: str) -> None:
    epoch = describe(connection, topic).partitions[0].leader_epoch
    assert list_offset(connection, topic, LATEST, leader_epoch=epoch).error_code == 0
    newer = list_offset(connection, topic, LATEST, leader_epoch=epoch + 1)
    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("version", range(2, 5))
def test_the_current_epoch_ends_at_the_log_end(
    connection: Connection, topic: str, version: int
) -> None:
    produce(connection, topic, values(b"a", b"b", b"c"))
    epoch = describe(connection, topic).partitions[0].leader_epoch
    found = epoch_end(connection, topic, epoch, version=version)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, epoch, 3)


def test_an_epoch_not_yet_reached_has_no_end(connection: Connection, topic: str) -> None:
    produce(connection, topic, values(b"a"))
    found = epoch_end(connection, topic, 1000)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, -1, -1)
    fenced = epoch_end(connection, topic, 0, current=1000)
    assert fenced.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_deleted_records_are_out_of_range(connection: Connection, topic: str) -> None:
    for number in range(10):
        produce(connection, topic, values(str(number).encode()))
    deleted = delete_before(connection, topic, 4)
    assert (deleted.error_code, deleted.low_watermark) == (0, 4)
    assert list_offset(connection, topic, EARLIEST).offset == 4
    assert fetch(connection, From(topic, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    found = fetch(connection, From(topic, 4))
    assert (found.error_code, found.log_start_offset) == (0, 4)


def test_minus_1_deletes_all_there_is(connection: Connection, topic: str) -> None:
    produce(connection, topic, values(b"a", b"b", b"c"))
    assert delete_before(connection, topic, -1).low_watermark == 3
    assert list_offset(connection, topic, EARLIEST).offset == 3
    assert produce(connection, topic, values(b"d")).base_offset == 3


def test_deleting_again_what_is_deleted_changes_nothing(connection: Connection, topic: str) -> None:
    produce(connection, topic, values(b"a", b"b", b"c"))
    delete_before(connection, topic, 2)
    again = delete_before(connection, topic, 1)
    assert (again.error_code, again.low_watermark) == (0, 2)


@pytest.mark.parametrize("offset", [4, -2, 2**62])
def test_an_impossible_offset_is_not_deleted(
    connection: Connection, topic: str, offset: int
) -> None:
    produce(connection, topic, values(b"a", b"b", b"c"))
    refused = delete_before(connection, topic, offset)
    assert (refused.error_code, refused.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert list_offset(connection, topic, EARLIEST).offset == 0


def test_records_of_unknown_partitions_are_not_deleted(
    connection: Connection, topic: str, new_name: Callable[[], str]
) -> None:
    for name, partition in ((topic, 9), (new_name(), 0)):
        refused = delete_before(connection, name, 0, partition)
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_deleted_records_stay_deleted_over_a_restart(own_broker: OwnBroker, ending: str) -> None:
    broker = own_broker()
    with Connection(broker.bootstrap) as connection:
        create_topic(connection, "shortened")
        for number in range(10):
            produce(connection, "shortened", values(str(number).encode()))
        assert delete_before(connection, "shortened", 6).low_watermark == 6
    if ending == "kill":
        broker.kill()
    else:
        assert broker.stop() == 0
    broker.start()
    with Connection(broker.bootstrap) as connection:
        assert list_offset(connection, "shortened", EARLIEST).offset == 6
        assert list_offset(connection, "shortened", LATEST).offset == 10


def test_internal_topics_keep_their_records(connection: Connection) -> None:
    coordinated(connection, "a-group")
    answer = delete_before(connection, "__consumer_offsets", 0)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    unknown = delete_before(connection, "__consumer_offsets", 0, partition=9999)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_internal_topic_that_is_not_there_is_unknown(own_broker: OwnBroker) -> None:
    with Connection(own_broker().bootstrap) as connection:
        answer = delete_before(connection, "__transaction_state", 0)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
