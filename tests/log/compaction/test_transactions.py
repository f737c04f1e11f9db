"""Compaction and transactions, compaction and producers: what goes, what stays, and what both kinds
of readers, and producers that come back, find then."""

import pytest

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.records.control import MarkerType
from ottla.wire.batch import DELETE_HORIZON
from ottla.wire.errors import ErrorCode, KafkaError
from tests.log.compacting import batches, committed, compacted, keyed, offsets, state
from tests.log.making import NOW, Logs, append, flush, marker, read_headers

RETENTION = 1000
CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), delete_retention_ms=RETENTION)
LATER = NOW + RETENTION
OPEN, COMMIT, ABORT = None, MarkerType.COMMIT, MarkerType.ABORT


class Producer:
    """A transactional producer."""

    def __init__(self, log: Log, producer_id: int) -> None:
        self.log = log
        self.id = producer_id
        self.epoch = 0
        self.sequence = 0

    def send(self, *pairs: tuple[str, str | None], transactional: bool = True) -> int:
        records = keyed(
            *pairs,
            producer=self.id,
            epoch=self.epoch,
            sequence=self.sequence,
            transactional=transactional,
        )
        self.sequence += len(pairs)
        return append(self.log, records).base_offset

    def end(self, kind: MarkerType) -> int:
        control = marker(kind, producer=self.id, epoch=self.epoch)
        return self.log.append_marker(control, now=NOW, leader_epoch=0).base_offset


def shape(log: Log) -> list[tuple[int, int, int]]:
    """Base offset, last offset and record count of each batch."""
    return [(each.base_offset, each.last_offset, each.record_count) for each in read_headers(log)]


def expired(log: Log) -> None:
    """Forget all producers."""
    log.producers.expire(NOW + 10 * CONFIG.producer_id_expiration_ms, 0)


def test_aborted_records_go_at_once_and_committed_ones_stay(logs: Logs) -> None:
    log = logs.open(CONFIG)
    one, two = Producer(log, 1), Producer(log, 2)
    one.send(("a", "aborted"))
    two.send(("a", "committed"))
    one.send(("b", "aborted"))
    one.end(ABORT)
    two.end(COMMIT)
    append(log, keyed(("c", "plain")))
    log.roll(NOW)
    compacted(log)
    assert offsets(log) == [1, 5]
    assert state(committed(log)) == {b"a": b"committed", b"c": b"plain"}


def test_an_aborted_record_replaces_nothing(logs: Logs) -> None:
    log = logs.open(CONFIG)
    append(log, keyed(("a", "1")))
    producer = Producer(log, 1)
    producer.send(("a", "2"))
    producer.end(ABORT)
    log.roll(NOW)
    compacted(log)
    assert state(committed(log)) == {b"a": b"1"}


def test_a_transaction_aborted_behind_the_range_is_known_as_such(logs: Logs) -> None:
    log = logs.open(CONFIG)
    append(log, keyed(("a", "1")))
    one, two = Producer(log, 1), Producer(log, 2)
    one.send(("a", "2"))
    log.roll(NOW)
    two.send(("b", "1"))
    one.end(ABORT)
    compacted(log)
    assert state(committed(log)) == {b"a": b"1"}
    assert shape(log)[1] == (1, 1, 0)


def test_nothing_past_the_last_stable_offset_is_touched(logs: Logs) -> None:
    log = logs.open(CONFIG)
    append(log, keyed(("a", "1")))
    append(log, keyed(("a", "2")))
    log.roll(NOW)
    producer = Producer(log, 1)
    append(log, keyed(("a", "3")))
    producer.send(("a", "4"))
    log.roll(NOW)
    append(log, keyed(("a", "5")))
    log.roll(NOW)
    compacted(log)
    assert offsets(log) == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_a_marker_stays_while_a_batch_of_its_transaction_does(logs: Logs, kind: MarkerType) -> None:
    """The producer lives, so its last batch stays, empty; without the marker the transaction would
    look open after a restart."""
    log = logs.open(CONFIG)
    producer = Producer(log, 1)
    producer.send(("a", "1"))
    producer.end(kind)
    append(log, keyed(("a", "2")))
    log.roll(NOW)
    for now in (NOW, LATER, LATER + RETENTION):
        compacted(log, 0, now=now)
        assert shape(log) == [(0, 0, 0), (1, 1, 1), (2, 2, 1)]
        assert not read_headers(log)[1].attributes & DELETE_HORIZON
    for snapshot in logs.directory.glob("*.snapshot"):
        snapshot.unlink()
    flush(log)
    logs.crash(log)
    log = logs.open(CONFIG, clean=False, recovery_point=0)
    assert log.last_stable_offset == log.end_offset == 3


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_a_marker_goes_when_nothing_of_its_transaction_is_left(
    logs: Logs, kind: MarkerType
) -> None:
    log = logs.open(CONFIG)
    producer = Producer(log, 1)
    producer.send(("a", "1"))
    producer.end(kind)
    append(log, keyed(("a", "2")))
    log.roll(NOW)
    expired(log)
    compacted(log, 0, now=NOW)
    assert shape(log) == [(1, 1, 1), (2, 2, 1)]
    compacted(log, 0, now=NOW)
    header, batch = next(iter(batches(log)))
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == NOW + RETENTION
    compacted(log, 0, now=LATER - 1)
    assert bytes(next(iter(batches(log)))[1]) == bytes(batch)
    compacted(log, 0, now=LATER)
    assert shape(log) == [(2, 2, 1)]


def test_the_index_of_aborted_transactions_follows_the_markers(logs: Logs) -> None:
    log = logs.open(CONFIG)
    one, two = Producer(log, 1), Producer(log, 2)
    one.send(("a", "1"))
    two.send(("b", "1"))
    two.end(ABORT)
    one.end(ABORT)
    append(log, keyed(("c", "1")))
    log.roll(NOW)
    assert log.aborted_transactions(0, 5) == [(1, 0), (2, 1)]
    compacted(log, 0)
    assert shape(log)[:2] == [(0, 0, 0), (1, 1, 0)]
    assert log.aborted_transactions(0, 5) == [(1, 0), (2, 1)]
    expired(log)
    compacted(log, 0)
    assert log.aborted_transactions(0, 5) == [(1, 0), (2, 1)]
    compacted(log, 0)
    assert log.aborted_transactions(0, 5) == []
    assert not list(logs.directory.glob("*.txnindex"))


def test_transactions_of_one_producer_are_distinguished(logs: Logs) -> None:
    log = logs.open(CONFIG)
    producer = Producer(log, 1)
    ends = (ABORT, COMMIT, ABORT, ABORT, COMMIT)
    for at, kind in enumerate(ends):
        producer.send((f"key-{at}", str(at)))
        producer.send((f"more-{at}", str(at)))
        producer.end(kind)
        if at % 2:
            log.roll(NOW)
    log.roll(NOW)
    expected = state(committed(log))
    assert expected == {b"key-1": b"1", b"more-1": b"1", b"key-4": b"4", b"more-4": b"4"}
    for now in (NOW, NOW, LATER, LATER):
        compacted(log, 0, now=now)
        assert state(committed(log)) == expected
    assert offsets(log) == [3, 4, 12, 13]


def test_the_last_batch_of_a_live_producer_stays_with_its_sequence(logs: Logs) -> None:
    log = logs.open(CONFIG)
    producer = Producer(log, 1)
    producer.send(("a", "1"), ("b", "1"), transactional=False)
    producer.send(("a", "2"), ("b", "2"), transactional=False)
    append(log, keyed(("a", "3"), ("b", "3")))
    log.roll(NOW)
    compacted(log)
    assert shape(log) == [(2, 3, 0), (4, 5, 2)]
    header = read_headers(log)[0]
    assert (header.producer_id, header.base_sequence, header.last_sequence) == (1, 2, 3)
    log.close()
    for snapshot in logs.directory.glob("*.snapshot"):
        snapshot.unlink()
    log = logs.open(CONFIG, clean=False)
    repeated = append(log, keyed(("a", "2"), ("b", "2"), producer=1, epoch=0, sequence=2))
    assert (repeated.duplicate, repeated.base_offset) == (True, 2)
    with pytest.raises(KafkaError) as caught:
        append(log, keyed(("a", "9"), producer=1, epoch=0, sequence=9))
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_batch_of_a_producer_that_expired_goes(logs: Logs) -> None:
    log = logs.open(CONFIG)
    Producer(log, 1).send(("a", "1"), transactional=False)
    append(log, keyed(("a", "2")))
    log.roll(NOW)
    expired(log)
    compacted(log)
    assert shape(log) == [(1, 1, 1)]


def test_the_marker_of_a_producers_newest_epoch_stays(logs: Logs) -> None:
    """A marker that raised the epoch (KIP-890) is all that tells of the epoch."""
    log = logs.open(CONFIG)
    producer = Producer(log, 1)
    producer.send(("a", "1"))
    producer.epoch = 1
    producer.end(COMMIT)
    append(log, keyed(("a", "2")))
    log.roll(NOW)
    for now in (NOW, NOW, LATER):
        compacted(log, 0, now=now)
        assert shape(log) == [(1, 1, 1), (2, 2, 1)]
    log.close()
    for snapshot in logs.directory.glob("*.snapshot"):
        snapshot.unlink()
    log = logs.open(CONFIG, clean=False)
    with pytest.raises(KafkaError) as caught:
        append(log, keyed(("a", "3"), producer=1, epoch=0, sequence=1, transactional=True))
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    expired(log)
    for now in (NOW, LATER):
        compacted(log, 0, now=now)
    assert shape(log) == [(2, 2, 1)]


def test_a_log_of_producers_without_a_snapshot_past_it_is_left_alone(logs: Logs) -> None:
    from ottla.log.compaction.plan import plan

    log = logs.open(CONFIG)
    Producer(log, 1).send(("a", "1"), transactional=False)
    log.roll(NOW)
    flush(log)
    assert plan(log, 0, NOW) is not None
    log.snapshots.remove_all_but(set())
    assert plan(log, 0, NOW) is None
