"""A log that is compacted against a list of all records ever written to it.

Whatever producers write, however their transactions end, and whenever the log is compacted, opened
again or has lost its snapshots: nothing is missing that may not be missing, what is there is what
was written, and readers, tables and producers cannot tell that anything went.
"""

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.log.compaction.offset_map import ENTRY_BYTES
from ottla.log.compaction.plan import plan
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.producers.states import ProducedBatch
from ottla.records import Codec, Record
from ottla.records.control import MarkerType
from tests.log.compacting import MEMORY, batches, committed, compacted, keyed, records, state
from tests.log.faulty import FaultyFiles
from tests.log.making import NOW, Logs, append, flush, marker, read_all

RETENTION = 100
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=500,
    index_interval_bytes=150,
    delete_retention_ms=RETENTION,
    file_delete_delay_ms=0,
)

KEYS = st.sampled_from(["a", "b", "c", "a key that is longer than any key that stands for itself"])
PAIRS = st.lists(
    st.tuples(KEYS, st.none() | st.sampled_from(["", "1", "2" * 40])), min_size=1, max_size=4
)
IDEMPOTENT = st.sampled_from([1, 2])
TRANSACTIONAL = st.sampled_from([11, 12, 13])

Known: TypeAlias = dict[int, tuple[int, int, list[ProducedBatch]]]
"""Epoch, first offset of the open transaction, and remembered batches of each producer."""


class Written(NamedTuple):
    """A record of the model, and the transaction it belongs to."""

    record: Record
    transaction: int | None


class ProducerModel:
    """A producer as it knows itself."""

    def __init__(self, producer_id: int) -> None:
        self.id = producer_id
        self.epoch = 0
        self.transaction: int | None = None
        self.first_offset = -1


class CompactionMachine(RuleBasedStateMachine):
    """The log and its model, side by side."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.logs = Logs(self.root / "t-0", FaultyFiles(), open_files=3)
        self.log: Log = self.logs.open(CONFIG)
        self.now = NOW
        self.written: list[Written] = []
        self.end = 0
        self.producers = {id_: ProducerModel(id_) for id_ in (1, 2, 11, 12, 13)}
        self.ended: dict[int, bool] = {}
        """Whether each ended transaction was committed."""
        self.transactions = 0
        self.has_forgotten = False
        """True once the log in memory may know less of its producers than its files tell."""
        self.forgotten: set[int] = set()
        """Producers of which an older snapshot may know what the log no longer has to."""
        self.first_dirty = 0
        self.compacted_to = 0
        self.deleting_since: dict[int, int] = {}
        """When a pass first removed all that a tombstone deletes, by the tombstone's offset."""

    def teardown(self) -> None:
        if hasattr(self, "root"):
            self.logs.close()
            shutil.rmtree(self.root)

    # Changes ------------------------------------------------------------------------------

    def _append(
        self, pairs: list[tuple[str, str | None]], codec: Codec, producer: ProducerModel | None
    ) -> None:
        transaction = None if producer is None else producer.transaction
        known = None if producer is None else self.log.producers.by_id.get(producer.id)
        data = keyed(
            *pairs,
            timestamp=self.now,
            codec=codec,
            producer=-1 if producer is None else producer.id,
            epoch=-1 if producer is None else producer.epoch,
            sequence=-1 if producer is None else 0 if known is None else known.last_sequence + 1,
            transactional=transaction is not None,
        )
        appended = append(self.log, data, now=self.now)
        assert (appended.base_offset, appended.duplicate) == (self.end, False)
        if producer is not None:
            self.forgotten.discard(producer.id)
        for at, (key, value) in enumerate(pairs):
            encoded = None if value is None else value.encode()
            record = Record(self.end + at, self.now + at, key.encode(), encoded)
            self.written.append(Written(record, transaction))
        self.end += len(pairs)

    @rule(pairs=PAIRS, codec=st.sampled_from(Codec))
    def append(self, pairs: list[tuple[str, str | None]], codec: Codec) -> None:
        self._append(pairs, codec, None)

    @rule(pairs=PAIRS, id_=IDEMPOTENT)
    def append_idempotently(self, pairs: list[tuple[str, str | None]], id_: int) -> None:
        self._append(pairs, Codec.NONE, self.producers[id_])

    @rule(pairs=PAIRS, id_=TRANSACTIONAL)
    def append_in_a_transaction(self, pairs: list[tuple[str, str | None]], id_: int) -> None:
        producer = self.producers[id_]
        if producer.transaction is None:
            self.transactions += 1
            producer.transaction = self.transactions
            producer.first_offset = self.end
        self._append(pairs, Codec.ZSTD, producer)

    @rule(id_=TRANSACTIONAL, commit=st.booleans(), next_epoch=st.booleans())
    def end_a_transaction(self, id_: int, commit: bool, next_epoch: bool) -> None:
        producer = self.producers[id_]
        if producer.transaction is None:
            return
        producer.epoch += next_epoch
        kind = MarkerType.COMMIT if commit else MarkerType.ABORT
        control = marker(kind, producer=id_, epoch=producer.epoch)
        self.log.append_marker(control, now=self.now, leader_epoch=0)
        self.end += 1
        self.ended[producer.transaction] = commit
        producer.transaction = None

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now)

    @rule(milliseconds=st.sampled_from([1, RETENTION - 1, RETENTION]))
    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds

    @rule()
    def forget_producers(self) -> None:
        known = set(self.log.producers.by_id)
        self.log.producers.expire(self.now, -(1 << 60))
        self.forgotten |= known - set(self.log.producers.by_id)
        self.has_forgotten = True

    @rule()
    def flush(self) -> None:
        flush(self.log)

    # Compaction ---------------------------------------------------------------------------

    @rule(keys=st.sampled_from([1, 2, 3, MEMORY // ENTRY_BYTES]), from_the_start=st.booleans())
    def compact(self, keys: int, from_the_start: bool) -> None:
        if from_the_start:
            self.first_dirty = 0
        before = read_all(self.log)
        found = plan(self.log, self.first_dirty, self.now)
        if found is None:
            return
        finished = compacted(self.log, self.first_dirty, now=self.now, memory=keys * ENTRY_BYTES)
        assert self.first_dirty < finished.first_dirty <= found.end <= self._stable()
        self.first_dirty = finished.first_dirty
        self.compacted_to = max(self.compacted_to, self.first_dirty)
        after = read_all(self.log)
        # The untouched end is there byte for byte.
        untouched = read_all(self.log, found.end) if found.end < self.end else b""
        assert before.endswith(untouched)
        assert after.endswith(untouched)
        assert self.log.size == len(after)
        self.log.remove_doomed(self.now)
        self._check_what_went()
        self._check_what_is_left(finished.first_dirty)

    def _check_what_went(self) -> None:
        left = {record.offset for record in records(self.log)}
        decided = [each for each in self.written if self._counts(each)]
        for each in self.written:
            record = each.record
            if record.value is None and record.offset < self.first_dirty:
                self.deleting_since.setdefault(record.offset, self.now)
            if record.offset in left or self._was_aborted(each):
                continue
            is_replaced = any(
                record.offset < other.record.offset < self.compacted_to
                and other.record.key == record.key
                for other in decided
            )
            if not is_replaced:
                assert record.value is None, f"{record} is lost"
                since = self.deleting_since[record.offset]
                assert self.now >= since + RETENTION, f"{record} went too early"

    def _check_what_is_left(self, first_dirty: int) -> None:
        clean = [record for record in records(self.log) if record.offset < first_dirty]
        assert len({record.key for record in clean}) == len(clean)
        aborted = {each.record.offset for each in self.written if self._was_aborted(each)}
        assert not aborted & {record.offset for record in clean}

    # Restarts -----------------------------------------------------------------------------

    def _known(self) -> Known:
        return {
            id_: (
                each.epoch,
                each.txn_first_offset,
                # A snapshot has one timestamp for a producer, be it of a batch or of a marker.
                [batch._replace(timestamp=0) for batch in each.batches],
            )
            for id_, each in self.log.producers.by_id.items()
        }

    @rule(clean=st.booleans())
    def open_again(self, clean: bool) -> None:
        known = self._known()
        content = read_all(self.log)
        point = self.log.recovery_point
        if clean:
            self.log.close()
        else:
            self.logs.crash(self.log)
        self.log = self.logs.open(CONFIG, clean=clean, recovery_point=point, now=self.now)
        assert read_all(self.log) == content
        if self.has_forgotten:
            self._check_producers(known)
        else:
            assert self._known() == known

    @rule()
    def open_again_without_snapshots(self) -> None:
        """As a follower that has copied the log knows its producers."""
        known = self._known()
        content = read_all(self.log)
        self.log.close()
        for path in self.logs.directory.glob("*.snapshot"):
            path.unlink()
        self.log = self.logs.open(CONFIG, clean=False, now=self.now)
        assert read_all(self.log) == content
        self._check_producers(known)
        self.has_forgotten = True

    def _check_producers(self, known: Known) -> None:
        """A log that is read again knows those that it knew; it may know others, and more of them,
        but need not know more than their last batch."""
        found = self._known()
        for id_, (epoch, first_offset, last) in known.items():
            if id_ in self.forgotten:
                continue
            assert found[id_][:2] == (epoch, first_offset)
            assert found[id_][2][-1:] == last[-1:]

    # What is always true --------------------------------------------------------------------

    def _was_aborted(self, each: Written) -> bool:
        return each.transaction is not None and self.ended.get(each.transaction) is False

    def _counts(self, each: Written) -> bool:
        return each.transaction is None or self.ended.get(each.transaction) is True

    def _stable(self) -> int:
        firsts = [
            each.first_offset for each in self.producers.values() if each.transaction is not None
        ]
        return min([self.end, *firsts])

    @invariant()
    def readers_cannot_tell(self) -> None:
        if not hasattr(self, "root"):
            return
        assert (self.log.end_offset, self.log.last_stable_offset) == (self.end, self._stable())
        found = records(self.log)
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        by_offset = {each.record.offset: each.record for each in self.written}
        assert found == [by_offset[offset] for offset in offsets]
        visible = [
            each.record
            for each in self.written
            if self._counts(each) and each.record.offset < self._stable()
        ]
        assert state(committed(self.log)) == state(visible)
        at = 0
        for header, _ in batches(self.log):
            assert header.base_offset >= at
            at = header.next_offset


TestCompaction = CompactionMachine.TestCase
TestCompaction.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
