"""What a log remembers of producers: duplicates, gaps, epochs, expiry, and the snapshot file."""

import errno
from struct import pack, unpack

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.appended import Appended
from ottla.log.config import LogConfig
from ottla.log.producers import snapshot_format as producer_snapshot
from ottla.log.producers.snapshot_format import CorruptSnapshot
from ottla.log.producers.snapshots import DUE_AFTER, WEIGHT_OF_A_BATCH
from ottla.log.producers.states import ProducedBatch, ProducerStateEntry, ProducerStates
from ottla.wire.errors import ErrorCode, KafkaError
from tests.log.making import NOW, Logs, append, batch, flush

E = ErrorCode
LAST = 2**31 - 1
DAY = 86_400_000


def send(
    states: ProducerStates, epoch: int, sequence: int, *, offset: int = 0, count: int = 1
) -> ProducedBatch | ErrorCode | None:
    """One batch of producer 1: None where it is taken, the original of a duplicate, or an error."""
    last = (sequence + count - 1) & LAST
    try:
        original = states.check(1, epoch, sequence, last, False)
    except KafkaError as refused:
        return refused.code
    if original is None:
        states.update(1, epoch, sequence, last, offset, offset + count - 1, NOW, False, NOW)
    return original


def test_sequences_continue(logs: Logs) -> None:
    states = ProducerStates()
    assert send(states, 0, 0, count=3) is None
    assert send(states, 0, 3) is None
    assert send(states, 0, 4, count=10) is None
    assert states.by_id[1].last_sequence == 13


@pytest.mark.parametrize("sequence", [1, 2, 4, 6, 100])
def test_a_sequence_that_does_not_follow_is_out_of_order(sequence: int) -> None:
    states = ProducerStates()
    send(states, 0, 0, count=5)
    assert send(states, 0, sequence) == E.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_last_five_batches_are_known_again() -> None:
    states = ProducerStates()
    for sequence in range(7):
        send(states, 0, sequence, offset=10 * sequence)
    for sequence in range(2, 7):
        assert send(states, 0, sequence) == ProducedBatch(
            sequence, sequence, 10 * sequence, 10 * sequence, NOW
        )
    assert send(states, 0, 1) == E.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_same_sequence_with_another_count_is_not_a_duplicate() -> None:
    states = ProducerStates()
    send(states, 0, 0, count=2)
    assert send(states, 0, 0, count=3) == E.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_refused_and_a_newer_one_starts_at_zero() -> None:
    states = ProducerStates()
    send(states, 3, 0)
    assert send(states, 2, 1) == E.INVALID_PRODUCER_EPOCH
    assert send(states, 4, 1) == E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(states, 4, 0) is None
    assert send(states, 3, 0) == E.INVALID_PRODUCER_EPOCH


def test_an_unknown_producer_starts_anywhere() -> None:
    states = ProducerStates()
    assert send(states, 5, 1234) is None
    assert send(states, 5, 1235) is None


def test_sequences_wrap_to_zero() -> None:
    states = ProducerStates()
    assert send(states, 0, LAST) is None
    assert send(states, 0, 0) is None
    states = ProducerStates()
    assert send(states, 0, LAST - 1, count=4) is None
    assert states.by_id[1].last_sequence == 1
    assert send(states, 0, 2) is None
    assert send(states, 0, LAST - 1, count=4) == ProducedBatch(LAST - 1, 1, 0, 3, NOW)


def test_silent_producers_expire_unless_their_transaction_is_open() -> None:
    states = ProducerStates()
    states.update(1, 0, 0, 0, 0, 0, 5, False, NOW)
    states.update(2, 0, 0, 0, 1, 1, 5, True, NOW)
    states.update(3, 0, 0, 0, 2, 2, 5, False, NOW + 1)
    assert states.expire(NOW + DAY, DAY) == 1
    assert sorted(states.by_id) == [2, 3]


def test_a_producer_of_old_events_does_not_expire_while_it_writes(logs: Logs) -> None:
    log = logs.open()
    append(log, batch(timestamp=1000, producer=9, epoch=0, sequence=0))
    log.maintain(NOW + 1)
    assert append(log, batch(timestamp=1000, producer=9, epoch=0, sequence=0)).duplicate


def test_a_duplicate_gets_its_first_offset_and_timestamp_back(logs: Logs) -> None:
    log = logs.open()
    append(log, batch(3))
    append(log, batch(2, timestamp=77, producer=9, epoch=0, sequence=0))
    append(log, batch(1))
    again = append(log, batch(2, timestamp=77, producer=9, epoch=0, sequence=0))
    assert again == Appended(3, 4, 78, 0, True, False)
    assert log.end_offset == 6


def test_a_refused_batch_leaves_the_producer_as_it_was(logs: Logs) -> None:
    log = logs.open()
    append(log, batch(producer=9, epoch=0, sequence=0))
    for epoch, sequence in ((0, 5), (1, 5), (-1, 0)):
        with pytest.raises(KafkaError):
            append(log, batch(producer=9, epoch=epoch, sequence=sequence))
    assert append(log, batch(producer=9, epoch=0, sequence=1)).base_offset == 1


@pytest.mark.parametrize("clean", [True, False])
def test_all_five_batches_survive_a_restart(logs: Logs, clean: bool) -> None:
    log = logs.open()
    for sequence in range(8):
        append(log, batch(producer=9, epoch=2, sequence=sequence))
    if clean:
        log.close()
    else:
        logs.crash(log)
    log = logs.open(clean=clean)
    for sequence in range(3, 8):
        again = append(log, batch(producer=9, epoch=2, sequence=sequence))
        assert (again.base_offset, again.duplicate) == (sequence, True)
    with pytest.raises(KafkaError):
        append(log, batch(producer=9, epoch=2, sequence=2))
    assert append(log, batch(producer=9, epoch=2, sequence=8)).base_offset == 8


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_gives_producers_another_day(logs: Logs, clean: bool) -> None:
    log = logs.open()
    append(log, batch(timestamp=1000, producer=9, epoch=2, sequence=0))
    if clean:
        log.close()
    logs.crash(log)
    log = logs.open(clean=clean, now=NOW + DAY)
    assert not log.producers.expire(NOW + 2 * DAY - 1, DAY)
    assert log.producers.expire(NOW + 2 * DAY, DAY)


def test_a_damaged_snapshot_means_reading_the_log(logs: Logs) -> None:
    log = logs.open(LogConfig(segment_bytes=500))
    for sequence in range(12):
        append(log, batch(producer=9, epoch=0, sequence=sequence))
    log.close()
    for path in logs.directory.glob("*.snapshot"):
        path.write_bytes(path.read_bytes()[:-3])
    log = logs.open()
    assert [each.first_sequence for each in log.producers.by_id[9].batches] == [7, 8, 9, 10, 11]


def test_missing_snapshots_mean_reading_the_log(logs: Logs) -> None:
    log = logs.open(LogConfig(segment_bytes=500))
    for sequence in range(12):
        append(log, batch(producer=9, epoch=0, sequence=sequence))
    log.close()
    for path in logs.directory.glob("*.snapshot"):
        path.unlink()
    log = logs.open()
    assert log.producers.by_id[9].last_sequence == 11


def test_a_flush_of_much_data_takes_a_snapshot_and_removes_the_last_one(logs: Logs) -> None:
    log = logs.open()
    for sequence in range(3):
        for _ in range(9):
            append(log, batch(size=1_000_000, key=None))
        append(log, batch(producer=9, epoch=0, sequence=sequence))
        flush(log)
    assert [name for name in logs.names() if name.endswith(".snapshot")] == [f"{30:020d}.snapshot"]


def test_tiny_batches_make_a_snapshot_due_also_over_kills(logs: Logs) -> None:
    a_life = DUE_AFTER // WEIGHT_OF_A_BATCH // 4
    for life in range(6):
        written = life * a_life
        log = logs.open(clean=False, recovery_point=written)
        assert not log.snapshots.is_due
        for number in range(a_life):
            append(log, batch(producer=9, epoch=0, sequence=written + number))
        flush(log)
        logs.crash(log)
    taken = [name for name in logs.names() if name.endswith(".snapshot")]
    assert taken == [f"{4 * a_life:020d}.snapshot"]


def a_producer(number: int = 9) -> ProducerStateEntry:
    producer = ProducerStateEntry(number)
    producer.epoch = 4
    producer.coordinator_epoch = 2
    producer.last_timestamp = producer.last_seen = NOW
    producer.txn_first_offset = 17
    producer.batches.append(ProducedBatch(0, 4, 100, 104, NOW - 5))
    producer.batches.append(ProducedBatch(5, 5, 110, 110, NOW))
    return producer


def test_a_snapshot_is_kafkas_version_1(logs: Logs) -> None:
    data = producer_snapshot.encode([a_producer()])
    version, crc, count = unpack(">hIi", data[:10])
    assert (version, count) == (1, 1)
    assert crc == crc32c(data[6:])
    assert data[10:56] == pack(">qhiqiqiq", 9, 4, 5, 110, 0, NOW, 2, 17)


def test_a_snapshot_without_the_earlier_batches_is_read_too() -> None:
    row = pack(">qhiqiqiq", 9, 4, 5, 110, 2, NOW, 2, -1)
    tail = pack(">i", 1) + row
    (producer,) = producer_snapshot.decode(pack(">hI", 1, crc32c(tail)) + tail)
    assert list(producer.batches) == [ProducedBatch(3, 5, 108, 110, NOW)]


def test_an_empty_snapshot_has_ten_bytes() -> None:
    assert len(producer_snapshot.encode([])) == 10
    assert producer_snapshot.decode(producer_snapshot.encode([])) == []


@given(st.integers(0, 200), st.integers(1, 255))
def test_any_change_of_a_snapshot_is_noticed(at: int, change: int) -> None:
    data = bytearray(producer_snapshot.encode([a_producer(1), a_producer(2)]))
    data[at % len(data)] ^= change
    with pytest.raises(CorruptSnapshot):
        producer_snapshot.decode(bytes(data))


batches = st.tuples(st.integers(0, LAST), st.integers(0, 1000), st.integers(0, 2**40))


@given(
    st.dictionaries(
        st.integers(0, 2**63 - 1),
        st.tuples(st.integers(-1, 2**15 - 1), st.lists(batches, max_size=5)),
        max_size=5,
    )
)
def test_snapshots_round_trip(model: dict[int, tuple[int, list[tuple[int, int, int]]]]) -> None:
    producers = []
    for number, (epoch, sent) in model.items():
        producer = ProducerStateEntry(number)
        producer.epoch = epoch
        for last_sequence, delta, first_offset in sent:
            first = (last_sequence - delta) & LAST
            producer.batches.append(
                ProducedBatch(first, last_sequence, first_offset, first_offset + delta, NOW)
            )
            producer.last_timestamp = NOW
        producers.append(producer)
    again = producer_snapshot.decode(producer_snapshot.encode(producers))
    assert [(each.producer_id, each.epoch, each.batches) for each in again] == [
        (each.producer_id, each.epoch, each.batches) for each in producers
    ]


class NaiveProducer:
    """The rules of idempotence, written down once more and as simply as can be."""

    def __init__(self) -> None:
        self.epoch: int | None = None
        self.sent: list[tuple[int, int, int]] = []

    def send(self, epoch: int, sequence: int, count: int, offset: int) -> int | str:
        """The offset a batch gets, or why it gets none."""
        last = (sequence + count - 1) % 2**31
        if self.epoch is not None:
            if epoch < self.epoch:
                return "old epoch"
            if epoch == self.epoch:
                for first, end, original in self.sent[-5:]:
                    if (first, end) == (sequence, last):
                        return original
                if sequence != (self.sent[-1][1] + 1) % 2**31:
                    return "out of order"
            elif sequence != 0:
                return "out of order"
        if epoch != self.epoch:
            self.sent = []
        self.epoch = epoch
        self.sent.append((sequence, last, offset))
        return offset


CODES = {
    E.INVALID_PRODUCER_EPOCH: "old epoch",
    E.OUT_OF_ORDER_SEQUENCE_NUMBER: "out of order",
}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.one_of(st.integers(0, 8), st.integers(LAST - 4, LAST)),
            st.integers(1, 4),
            st.booleans(),
        ),
        max_size=40,
    )
)
def test_producer_states_follow_the_naive_rules(steps: list[tuple[int, int, int, bool]]) -> None:
    states, model = ProducerStates(), NaiveProducer()
    for offset, (epoch, sequence, count, restart) in enumerate(steps):
        answer = send(states, epoch, sequence, offset=10 * offset, count=count)
        if isinstance(answer, ErrorCode):
            seen: int | str = CODES[answer]
        else:
            seen = 10 * offset if answer is None else answer.first_offset
        assert seen == model.send(epoch, sequence, count, 10 * offset)
        if restart:
            again = ProducerStates()
            for producer in producer_snapshot.decode(
                producer_snapshot.encode(states.by_id.values())
            ):
                again.restore(producer)
            states = again


def test_a_snapshot_from_before_the_first_batch_is_not_used(logs: Logs) -> None:
    """What came in between is gone, so the producer is unknown: better than known wrongly."""
    log = logs.open()
    for sequence in range(5):
        append(log, batch(producer=7, epoch=0, sequence=sequence))
    log.close()  # leaves a snapshot at 5
    log = logs.open(recovery_point=5)
    for sequence in range(5, 10):
        append(log, batch(producer=7, epoch=0, sequence=sequence))
    open_file = logs.files.open

    def full(path: str, flags: int, mode: int) -> int:
        if path.endswith(".snapshot"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return open_file(path, flags, mode)

    logs.files.open = full
    log.roll(NOW)
    logs.files.open = open_file
    append(log, batch())
    log.raise_start_offset(10)
    log.maintain(NOW)
    flush(log)
    logs.crash(log)
    log = logs.open(clean=False, recovery_point=11, start_offset=10)
    assert append(log, batch(producer=7, epoch=0, sequence=10)).base_offset == 11
