"""A follower's log: copying byte for byte, and truncating to where it parted from its leader."""

import errno
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.config import LogConfig
from ottla.log.leader_epochs import LeaderEpochFileCache
from ottla.log.log import Log
from ottla.wire.errors import ErrorCode, KafkaError
from tests.log.faulty import FaultyFiles, Killed
from tests.log.making import NOW, Logs, append, batch, flush, read_all, read_headers

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


def joined(*batches: memoryview) -> memoryview:
    return memoryview(b"".join(batches))


def filled(logs: Logs, count: int = 20, config: LogConfig = SMALL) -> Log:
    log = logs.open(config)
    for i in range(count):
        records = batch(2, timestamp=NOW + i, producer=1, epoch=0, sequence=2 * i)
        append(log, records, leader_epoch=i // 5)
    return log


def test_a_followers_log_is_its_leaders_byte_for_byte(logs: Logs) -> None:
    leader = filled(logs)
    data = read_all(leader)
    logs.directory = logs.directory.with_name("copy-3")
    follower = logs.open(LogConfig(segment_bytes=700, index_interval_bytes=0))
    follower.append_as_follower(memoryview(data[:500]))
    size = follower.size
    follower.append_as_follower(memoryview(data[size:]))
    assert read_all(follower) == data
    assert len(follower.segments) > 2
    assert all(segment.size <= 700 for segment in follower.segments)
    assert follower.end_offset == leader.end_offset
    assert follower.epochs.entries() == leader.epochs.entries()
    assert follower.producers.by_id[1].batches == leader.producers.by_id[1].batches


def test_offsets_may_leave_gaps_but_never_go_back(logs: Logs) -> None:
    log = logs.open()
    log.append_as_follower(joined(batch(2, base_offset=5), batch(1, base_offset=20)))
    assert log.end_offset == 21
    for view in (
        batch(1, base_offset=20),
        joined(batch(1, base_offset=30), batch(1, base_offset=30)),
    ):
        with pytest.raises(KafkaError) as refused:
            log.append_as_follower(view)
        assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert log.end_offset == 21


def test_nothing_is_written_where_one_batch_is_damaged(logs: Logs) -> None:
    log = logs.open()
    damaged = batch(1, base_offset=3)
    damaged[-1] ^= 1
    with pytest.raises(KafkaError):
        log.append_as_follower(joined(batch(1), damaged))
    assert log.end_offset == 0


def test_an_incomplete_batch_is_left_for_the_next_fetch(logs: Logs) -> None:
    log = logs.open()
    log.append_as_follower(joined(batch(1), batch(1, base_offset=1)[:-1]))
    log.append_as_follower(memoryview(b""))
    assert log.end_offset == 1


def test_batches_of_a_newer_epoch_than_was_fetched_for_are_left_out(logs: Logs) -> None:
    log = logs.open()
    first, second = batch(1, leader_epoch=4), batch(1, base_offset=1, leader_epoch=5)
    newer, last = batch(1, base_offset=2, leader_epoch=6), batch(1, base_offset=3, leader_epoch=5)
    assert not log.append_as_follower(joined(first, second, newer, last), leader_epoch=5)
    assert read_all(log) == joined(first, second)
    assert log.epochs.entries() == [(4, 0), (5, 1)]
    assert not log.append_as_follower(newer, leader_epoch=5)
    assert log.end_offset == 2
    assert log.append_as_follower(newer, leader_epoch=6)
    assert log.append_as_follower(memoryview(b""), leader_epoch=6)
    assert log.end_offset == 3


def test_an_empty_log_takes_a_batch_that_begins_before_its_start(logs: Logs) -> None:
    log = logs.open(start_offset=7)
    log.append_as_follower(joined(batch(5, base_offset=5), batch(1, base_offset=10)))
    assert (log.start_offset, log.end_offset) == (7, 11)
    assert read_headers(log)[0].base_offset == 5


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 7, 8, 20, 37, 38, 39])
def test_truncation_removes_the_batches_that_reach_past_an_offset(logs: Logs, offset: int) -> None:
    log = filled(logs)
    whole = read_headers(log)
    assert log.truncate_to(offset)
    left = [header for header in whole if header.next_offset <= offset]
    assert read_headers(log) == left
    assert log.end_offset == offset // 2 * 2
    assert log.size == sum(header.size for header in left)
    assert all(start < max(1, log.end_offset) for _, start in log.epochs.entries())
    expected = [header.base_sequence for header in left[-5:]]
    found = log.producers.by_id.get(1)
    assert expected == ([each.first_sequence for each in found.batches] if found else [])
    assert append(log, batch(1), leader_epoch=9).base_offset == log.end_offset - 1


@pytest.mark.parametrize("clean", [True, False])
def test_a_truncated_log_is_the_same_after_a_restart(logs: Logs, clean: bool) -> None:
    log = filled(logs)
    flush(log)
    log.truncate_to(13)
    append(log, batch(3, timestamp=NOW + 50), leader_epoch=9)
    expected = read_all(log)
    epochs = log.epochs.entries()
    point = log.recovery_point
    if clean:
        log.close()
    logs.crash(log)
    log = logs.open(SMALL, clean=clean, recovery_point=point)
    assert read_all(log) == expected
    assert log.epochs.entries() == epochs
    newest = log.max_timestamp_offset(1000)
    assert newest is not None
    assert newest.timestamp == NOW + 52


def test_a_truncation_that_is_killed_leaves_no_hole(tmp_path: Path) -> None:
    """In a compacted log nothing would show that segments between two others are gone."""
    config = replace(SMALL, cleanup_policy=frozenset({"compact"}))
    for killed_at in range(1000):
        files = FaultyFiles(fault="kill")
        directory = tmp_path / str(killed_at) / "t-0"
        directory.parent.mkdir()
        log = filled(Logs(directory, files), config=config)
        whole = read_all(log)
        files.fail_at = files.count + killed_at
        try:
            log.truncate_to(4)
        except Killed:
            pass
        files.close_all()
        logs = Logs(directory)
        log = logs.open(config, clean=False)
        assert whole.startswith(read_all(log))
        logs.close()
        if files.failed is None:
            return


def test_truncating_to_the_end_only_forgets_an_epoch_without_records(logs: Logs) -> None:
    log = filled(logs)
    log.epochs.assign(8, log.end_offset)
    assert not log.truncate_to(log.end_offset)
    assert not log.truncate_to(1000)
    assert log.epochs.latest == 3
    assert log.end_offset == 40


def test_a_truncated_log_ends_where_its_last_batch_does(logs: Logs) -> None:
    log = logs.open()
    for base_offset in (0, 100, 200):
        log.append_as_follower(batch(2, base_offset=base_offset))
    log.truncate_to(150)
    assert log.end_offset == 102
    flush(log)
    logs.crash(log)
    assert logs.open(clean=False, recovery_point=log.recovery_point).end_offset == 102


def test_truncating_everything_starts_again_at_an_offset(logs: Logs) -> None:
    log = filled(logs)
    log.truncate_fully_and_start_at(1000)
    assert (log.start_offset, log.end_offset, log.size) == (1000, 1000, 0)
    assert log.epochs.entries() == []
    assert not log.producers.by_id
    assert log.recovery_point == 0
    assert append(log, batch(1), leader_epoch=7).base_offset == 1000
    log.close()
    log = logs.open(start_offset=1000)
    assert [header.base_offset for header in read_headers(log)] == [1000]


def test_truncating_below_the_first_segment_starts_again_there(logs: Logs) -> None:
    log = filled(logs)
    log.set_config(LogConfig(retention_bytes=0))
    log.maintain(NOW)
    assert log.truncate_to(5)
    assert (log.start_offset, log.end_offset) == (5, 5)


def test_starting_again_at_the_same_offset_leaves_no_old_bytes(logs: Logs) -> None:
    log = filled(logs, 3)
    log.truncate_fully_and_start_at(0)
    assert read_all(log) == b""
    log.close()
    assert read_all(logs.open()) == b""


# Leader epochs ----------------------------------------------------------------------------


def test_an_epoch_ends_where_the_next_one_begins() -> None:
    epochs = LeaderEpochFileCache([(2, 10), (4, 20), (7, 30)])
    answers = [epochs.end_offset_for(epoch, 99) for epoch in range(-1, 9)]
    assert answers == [
        None,
        (0, 10),
        (1, 10),
        (2, 20),
        (2, 20),
        (4, 30),
        (4, 30),
        (4, 30),
        (7, 99),
        None,
    ]
    assert LeaderEpochFileCache().end_offset_for(0, 5) is None


def test_the_epoch_of_an_offset_is_that_of_the_leader_that_wrote_it() -> None:
    epochs = LeaderEpochFileCache([(2, 10), (4, 20)])
    assert [epochs.epoch_of(offset) for offset in (9, 10, 19, 20, 1000)] == [-1, 2, 2, 4, 4]


def test_a_new_epoch_removes_those_it_contradicts() -> None:
    epochs = LeaderEpochFileCache([(1, 0), (2, 10), (3, 20)])
    epochs.assign(4, 10)
    assert epochs.entries() == [(1, 0), (4, 10)]
    epochs.assign(4, 50)
    assert epochs.entries() == [(1, 0), (4, 10)]
    epochs.assign(3, 60)
    assert epochs.entries() == [(1, 0), (3, 60)]


def test_epochs_are_truncated_with_the_log() -> None:
    epochs = LeaderEpochFileCache([(1, 0), (2, 10), (3, 20)])
    epochs.truncate_from_start(15)
    assert epochs.entries() == [(2, 15), (3, 20)]
    epochs.truncate_from_end(20)
    assert epochs.entries() == [(2, 15)]
    assert epochs.latest == 2
    epochs.truncate_from_start(15)
    epochs.truncate_from_end(0)
    assert epochs.entries() == []
    assert epochs.latest == -1


def test_the_epoch_file_is_kafkas() -> None:
    assert LeaderEpochFileCache([(1, 0), (2, 10)]).to_bytes() == b"0\n2\n1 0\n2 10\n"
    assert LeaderEpochFileCache().to_bytes() == b"0\n0\n"


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 1000))))
def test_epochs_and_offsets_always_grow_and_round_trip(steps: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochFileCache()
    for epoch, start in steps:
        epochs.assign(epoch, start)
        assert epochs.epochs == sorted(set(epochs.epochs))
        assert epochs.starts == sorted(set(epochs.starts))
        assert epochs.latest == epoch
    assert LeaderEpochFileCache.from_bytes(epochs.to_bytes()).entries() == epochs.entries()


def test_a_log_that_is_offline_refuses_even_an_empty_answer(logs: Logs) -> None:
    log = logs.open()
    log.fail(OSError(errno.EIO, "Input/output error"))
    with pytest.raises(KafkaError) as refused:
        log.append_as_follower(memoryview(b""))
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(("offset", "end"), [(0, 0), (5, 4), (6, 6), (39, 38), (40, 40), (99, 40)])
def test_where_a_log_would_end_is_known_before_it_is_truncated(
    logs: Logs, offset: int, end: int
) -> None:
    log = filled(logs)
    assert log.end_if_truncated_to(offset) == end
    assert log.end_offset == 40
    log.truncate_to(offset)
    assert log.end_offset == end


def test_a_truncation_that_a_full_disk_stops_takes_the_log_offline(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of it may be done, and it is not known which half."""
    log = filled(logs)

    def refuse(_: int, __: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(log.files, "ftruncate", refuse)
    with pytest.raises(KafkaError):
        log.truncate_to(7)
    assert log.offline


def test_snapshots_of_truncated_records_are_removed(logs: Logs) -> None:
    log = filled(logs)
    assert max(log.snapshots.offsets) > 7
    log.truncate_to(7)
    assert max(log.snapshots.offsets) <= log.end_offset
    found = {int(path.stem) for path in log.directory.glob("*.snapshot")}
    assert found == set(log.snapshots.offsets)


def test_a_producer_that_a_truncation_brings_back_counts_as_alive(logs: Logs) -> None:
    """When it last wrote is not known; its last record may be of long ago."""
    log = filled(logs)
    alive = log.producers.by_id[1].last_seen
    log.truncate_to(20)
    assert log.producers.by_id[1].last_seen == alive
    log.producers.by_id.clear()
    append(log, batch(producer=2, epoch=0, sequence=0), leader_epoch=9)
    log.truncate_to(10)
    assert log.producers.by_id[1].last_seen > NOW + 1_000_000
