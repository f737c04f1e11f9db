"""Transactions in a log: what is undecided, what was aborted, and what survives a restart."""

import errno

import pytest

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.storage.file_cache import Slice
from ottla.records.control import Marker, MarkerType, encode_marker
from ottla.wire.batch import headers
from ottla.wire.errors import ErrorCode, KafkaError
from tests.log.making import NOW, Logs, append, batch, flush, marker

ABORT, COMMIT = MarkerType.ABORT, MarkerType.COMMIT


class Transaction:
    """A producer that writes transactions to a log."""

    def __init__(self, log: Log, producer: int) -> None:
        self.log = log
        self._producer = producer
        self._sequence = 0

    def send(self, count: int = 2) -> int:
        """Append a batch; returns its offset."""
        records = batch(
            count,
            producer=self._producer,
            epoch=0,
            sequence=self._sequence,
            transactional=True,
        )
        self._sequence += count
        return append(self.log, records).base_offset

    def end(self, kind: MarkerType) -> int:
        """End the transaction; returns the marker's offset."""
        return self.log.append_marker(
            marker(kind, producer=self._producer), now=NOW, leader_epoch=0
        ).base_offset


def test_the_last_stable_offset_waits_for_the_oldest_open_transaction(logs: Logs) -> None:
    log = logs.open()
    append(log, batch(3))
    first, second = Transaction(log, 1), Transaction(log, 2)
    first.send()
    second.send()
    append(log, batch(1))
    assert log.last_stable_offset == 3
    first.end(COMMIT)
    assert log.last_stable_offset == 5
    second.end(ABORT)
    assert log.last_stable_offset == log.end_offset == 10


def test_a_transaction_decided_above_the_high_watermark_is_not_stable_yet(logs: Logs) -> None:
    log = logs.open()
    log.high_watermark = 0
    transaction = Transaction(log, 1)
    append(log, batch(3))
    transaction.send()
    marked = transaction.end(COMMIT)
    log.high_watermark = 2
    assert log.last_stable_offset == 2
    log.high_watermark = marked
    assert log.last_stable_offset == 3
    log.high_watermark = marked + 1
    assert log.last_stable_offset == marked + 1


def test_aborted_transactions_are_found_by_the_range_they_overlap(logs: Logs) -> None:
    log = logs.open()
    first, second, third = (Transaction(log, number) for number in (1, 2, 3))
    first.send()  # 0, 1
    second.send()  # 2, 3
    first.end(ABORT)  # 4
    third.send()  # 5, 6
    second.end(COMMIT)  # 7
    third.end(ABORT)  # 8
    assert log.aborted_transactions(0, 9) == [(1, 0), (3, 5)]
    assert log.aborted_transactions(0, 5) == [(1, 0)]
    assert log.aborted_transactions(5, 9) == [(3, 5)]
    assert log.aborted_transactions(4, 5) == [(1, 0)]
    assert log.aborted_transactions(0, 0) == []


@pytest.mark.parametrize("segment_bytes", [1 << 20, 2000])
def test_a_reader_far_behind_gets_only_the_transactions_that_it_reads(
    logs: Logs, segment_bytes: int
) -> None:
    log = logs.open(LogConfig(segment_bytes=segment_bytes, index_interval_bytes=300))
    transaction, long_one = Transaction(log, 1), Transaction(log, 2)
    long_one.send()
    for _ in range(200):
        transaction.send()
        transaction.end(ABORT)
    long_one.end(ABORT)
    limit = log.last_stable_offset
    every = log.aborted_transactions(0, limit)
    assert len(every) == 201
    offset = 0
    while (read := log.read(offset, 1000, limit, True)) is not None:
        found = [header for _, header in headers(memoryview(logs.files.pread(*raw(read))))]
        read.file.unpin()
        end = found[-1].next_offset
        told = log.aborted_in(offset, read, limit)
        assert len(told) < 15
        assert set(told) >= set(log.aborted_transactions(offset, end))
        offset = end
    assert offset == limit


def raw(stretch: Slice) -> tuple[int, int, int]:
    return stretch.file.fd, stretch.size, stretch.position


def test_a_transaction_is_found_in_the_segment_of_its_marker(logs: Logs) -> None:
    log = logs.open(LogConfig(segment_bytes=200))
    transaction = Transaction(log, 1)
    transaction.send()
    for _ in range(10):
        append(log, batch())
    marked = transaction.end(ABORT)
    assert len(log.segments) > 3
    assert log.aborted_transactions(0, 1) == [(1, 0)]
    assert log.aborted_transactions(marked, marked + 1) == [(1, 0)]


def test_a_marker_without_records_ends_nothing(logs: Logs) -> None:
    log = logs.open()
    Transaction(log, 1).end(ABORT)
    assert log.last_stable_offset == 1
    assert log.aborted_transactions(0, 1) == []


def test_a_batch_outside_the_open_transaction_is_refused(logs: Logs) -> None:
    log = logs.open()
    Transaction(log, 1).send(1)
    with pytest.raises(KafkaError) as refused:
        append(log, batch(producer=1, epoch=0, sequence=1))
    assert refused.value.code == ErrorCode.INVALID_TXN_STATE


def test_markers_of_older_epochs_are_refused(logs: Logs) -> None:
    log = logs.open()
    append(log, batch(producer=1, epoch=5, sequence=0, transactional=True))
    old_producer = marker(COMMIT, producer=1, epoch=4)
    with pytest.raises(KafkaError) as refused:
        log.append_marker(old_producer, now=NOW, leader_epoch=0)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    log.append_marker(
        marker(COMMIT, producer=1, epoch=5, coordinator_epoch=3), now=NOW, leader_epoch=0
    )
    append(log, batch(producer=1, epoch=5, sequence=1, transactional=True))
    old_coordinator = marker(COMMIT, producer=1, epoch=5, coordinator_epoch=2)
    with pytest.raises(KafkaError) as refused:
        log.append_marker(old_coordinator, now=NOW, leader_epoch=0)
    assert refused.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.last_stable_offset == 2


def test_a_marker_with_a_newer_epoch_fences_the_producer(logs: Logs) -> None:
    log = logs.open()
    append(log, batch(producer=1, epoch=0, sequence=0, transactional=True))
    log.append_marker(marker(ABORT, producer=1, epoch=1), now=NOW, leader_epoch=0)
    with pytest.raises(KafkaError) as refused:
        append(log, batch(producer=1, epoch=0, sequence=1, transactional=True))
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    append(log, batch(producer=1, epoch=1, sequence=0, transactional=True))


def test_an_invalid_marker_is_refused(logs: Logs) -> None:
    log = logs.open()
    with pytest.raises(KafkaError) as refused:
        log.append_marker(batch(), now=NOW, leader_epoch=0)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert log.end_offset == 0


@pytest.mark.parametrize("ending", ["clean", "crash", "crash after flush"])
def test_transactions_survive_a_restart(logs: Logs, ending: str) -> None:
    log = logs.open(LogConfig(segment_bytes=400))
    aborted, committed, left_open = (Transaction(log, number) for number in (1, 2, 3))
    for kind in (ABORT, COMMIT, ABORT):
        aborted.send()
        committed.send()
        aborted.end(kind)
        committed.end(COMMIT)
    begun = left_open.send()
    append(log, batch(2))
    expected = log.aborted_transactions(0, log.end_offset)
    assert len(expected) == 2
    if ending == "clean":
        log.close()
    elif ending == "crash after flush":
        flush(log)
    point = log.recovery_point
    logs.crash(log)
    log = logs.open(clean=ending == "clean", recovery_point=point)
    assert log.last_stable_offset == begun
    assert log.aborted_transactions(0, log.end_offset) == expected
    Transaction(log, 3).end(ABORT)
    assert log.last_stable_offset == log.end_offset
    assert len(log.aborted_transactions(0, log.end_offset)) == 3


@pytest.mark.parametrize("clean", [True, False])
def test_aborted_transactions_are_not_forgotten_with_a_lost_offset_index(
    logs: Logs, clean: bool
) -> None:
    log = logs.open()
    transaction = Transaction(log, 1)
    transaction.send()
    transaction.end(ABORT)
    log.roll()
    append(log, batch())
    log.close()
    (logs.directory / f"{0:020d}.index").unlink()
    log = logs.open(clean=clean, recovery_point=log.recovery_point)
    assert log.aborted_transactions(0, 100) == [(1, 0)]
    assert (logs.directory / f"{0:020d}.index").exists()


def test_truncation_forgets_transactions_and_reopens_those_it_undecides(logs: Logs) -> None:
    log = logs.open()
    transaction = Transaction(log, 1)
    begun = transaction.send()
    marked = transaction.end(ABORT)
    flush(log)
    log.truncate_to(marked)
    assert log.aborted_transactions(0, 100) == []
    assert log.last_stable_offset == begun
    flush(log)
    logs.crash(log)
    log = logs.open(clean=False, recovery_point=log.recovery_point)
    assert log.aborted_transactions(0, 100) == []
    assert log.last_stable_offset == begun


def test_a_follower_keeps_transactions_like_its_leader(logs: Logs) -> None:
    leader = logs.open()
    transaction = Transaction(leader, 1)
    transaction.send()
    transaction.end(ABORT)
    transaction.send()
    found = leader.read(0, 1 << 20, 100, True)
    assert found is not None
    copied = memoryview(logs.files.pread(found.file.fd, found.size, found.position))
    found.file.unpin()
    logs.directory = logs.directory.with_name("orders-4")
    follower = logs.open()
    follower.append_as_follower(copied)
    assert follower.aborted_transactions(0, 100) == [(1, 0)]
    assert follower.last_stable_offset == leader.last_stable_offset == 3


def test_a_follower_without_readers_forgets_decided_transactions(logs: Logs) -> None:
    follower = logs.open()
    follower.high_watermark = 0
    for number in range(50):
        begun = batch(
            base_offset=2 * number, producer=1, epoch=0, sequence=number, transactional=True
        )
        ended = encode_marker(Marker(COMMIT, 0, 1, 0), NOW, base_offset=2 * number + 1)
        follower.append_as_follower(begun)
        follower.append_as_follower(memoryview(ended))
        follower.high_watermark = max(0, follower.end_offset - 4)
    assert len(follower.producers.completed) <= 3
    assert follower.last_stable_offset == 96


def test_a_marker_that_cannot_be_noted_is_not_written(logs: Logs) -> None:
    """Its second try would find no transaction, and its records would be read as committed."""
    logs.open().close()
    log = logs.open()
    append(log, batch(3, producer=7, epoch=0, sequence=0, transactional=True))
    logs.crash(log)
    log = logs.open(clean=False)
    open_file = logs.files.open

    def full(path: str, flags: int, mode: int) -> int:
        if path.endswith(".txnindex"):
            raise OSError(errno.EMFILE, "Too many open files")
        return open_file(path, flags, mode)

    log.segments.active.indexes.txn = None  # as after a start: it is read when it is needed
    logs.files.open = full
    with pytest.raises(KafkaError) as refused:
        log.append_marker(marker(MarkerType.ABORT, producer=7), now=NOW, leader_epoch=0)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not log.offline
    assert log.end_offset == 3
    logs.files.open = open_file
    log.append_marker(marker(MarkerType.ABORT, producer=7), now=NOW, leader_epoch=0)
    assert log.aborted_transactions(0, log.end_offset) == [(7, 0)]
