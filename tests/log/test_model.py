"""A log against a list of batches: whatever is done to both, both hold the same.

The crash takes what no fsync has covered: each file loses any part of its unsynced end, or has
garbage there instead. What the recovery point promised must be there, and the log must be a
beginning of the list.
"""

import os
import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.wire.batch import headers
from tests.log.faulty import FaultyFiles
from tests.log.making import NOW, Logs, append, batch, flush, read_all

CONFIG = LogConfig(
    segment_bytes=700,
    index_interval_bytes=150,
    retention_ms=-1,
    retention_bytes=2000,
    file_delete_delay_ms=0,
)


class Written(NamedTuple):
    """A batch of the model."""

    base_offset: int
    next_offset: int
    data: bytes
    producer: int
    sequence: int
    timestamp: int


class LogMachine(RuleBasedStateMachine):
    """The log and its model, side by side."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.files = FaultyFiles()
        self.logs = Logs(self.root / "t-0", self.files, open_files=2)
        self.log: Log = self.logs.open(CONFIG)
        self.batches: list[Written] = []
        self.start = self.end = 0
        self.start_checkpoint = self.recovery_checkpoint = 0
        self.leader_epoch = 0
        self.consumed = 0
        """Up to where a consumer has read that follows the log."""
        self.epochs_known_from = 0
        """A start offset that was raised, and lost again in a crash, takes older epochs with it."""

    def teardown(self) -> None:
        if hasattr(self, "root"):
            self.logs.close()
            shutil.rmtree(self.root)

    # Changes ------------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 4),
        size=st.integers(0, 120),
        producer=st.integers(-1, 2),
        timestamp=st.integers(0, 1000),
    )
    def append(self, count: int, size: int, producer: int, timestamp: int) -> None:
        sent = [each for each in self.batches if each.producer == producer]
        sequence = 0
        if producer < 0:
            sequence = -1
        elif sent:
            sequence = sent[-1].sequence + sent[-1].next_offset - sent[-1].base_offset
        elif producer in self.log.producers.by_id:
            # Retention took its batches, not what the log knows of it.
            sequence = self.log.producers.by_id[producer].last_sequence + 1
        records = batch(
            count,
            size=size,
            timestamp=NOW + timestamp,
            producer=producer,
            epoch=min(producer, 0),
            sequence=sequence,
        )
        appended = append(self.log, records, leader_epoch=self.leader_epoch)
        assert (appended.base_offset, appended.duplicate) == (self.end, False)
        assert appended.last_offset == self.end + count - 1
        following = self.end + count
        written = Written(
            self.end, following, bytes(records), producer, sequence, NOW + timestamp + count - 1
        )
        self.batches.append(written)
        self.end = following

    @rule(producer=st.integers(0, 2), back=st.integers(1, 5))
    def retry(self, producer: int, back: int) -> None:
        sent = [each for each in self.batches if each.producer == producer]
        if len(sent) < back:
            return
        original = sent[-back]
        again = bytearray(original.data)
        again[:8] = bytes(8)
        appended = append(self.log, memoryview(again), leader_epoch=self.leader_epoch)
        assert appended.duplicate
        assert appended.base_offset == original.base_offset
        assert appended.last_offset == original.next_offset - 1

    @rule()
    def new_leader(self) -> None:
        self.leader_epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule()
    def flush(self) -> None:
        flush(self.log)
        assert self.log.recovery_point == self.end

    @rule()
    def checkpoint(self) -> None:
        self.recovery_checkpoint = self.log.recovery_point
        self.start_checkpoint = self.log.start_offset

    @rule()
    def retain(self) -> None:
        self.log.maintain(NOW)
        self.log.remove_doomed(NOW)
        assert self.log.size <= 2000 + 700
        self._forget_removed_segments()
        self.start = max(self.start, self.log.segments.first.base_offset)

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        offset = round(self.start + part * (self.end - self.start))
        self.log.raise_start_offset(offset)
        self.start = offset
        self.epochs_known_from = max(self.epochs_known_from, offset)

    @rule(part=st.floats(0, 1))
    @precondition(lambda self: self.batches)
    def truncate(self, part: float) -> None:
        first = self.log.segments.first.base_offset
        offset = round(first + part * (self.end - first))
        end = self.log.end_if_truncated_to(offset)
        self.recovery_checkpoint = min(self.recovery_checkpoint, end)
        self.log.truncate_to(offset)
        assert self.log.end_offset == end
        self.batches = [each for each in self.batches if each.next_offset <= offset]
        self.end = self.batches[-1].next_offset if self.batches else first
        self.start = min(self.start, self.end)
        self.start_checkpoint = min(self.start_checkpoint, self.end)

    # Restarts -----------------------------------------------------------------------------

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.recovery_checkpoint, self.start_checkpoint = self.end, self.start
        self._open(clean=True)
        assert self.log.end_offset == self.end
        assert self.log.recovery_point == self.end
        assert self.log.start_offset == self.start

    @rule()
    def killed(self) -> None:
        """The process dies; what it wrote is in the page cache and survives."""
        self.logs.crash(self.log)
        self._open(clean=False)
        assert self.log.end_offset == self.end
        self._start_may_have_gone_back()

    @rule(random=st.randoms(use_true_random=False))
    def power_failure(self, random: Random) -> None:
        """The machine dies, and takes with it what no fsync has covered."""
        self.logs.crash(self.log)
        for path in list(self.logs.directory.iterdir()):
            size = path.stat().st_size
            synced = min(size, self.files.synced_size(path))
            if size == synced or path.name == "leader-epoch-checkpoint":
                continue
            left = random.randint(synced, size)
            os.truncate(path, left)
            if random.random() < 0.5:
                with path.open("r+b") as file:
                    file.seek(left)
                    file.write(random.randbytes(random.randint(0, size - left)))
        self._open(clean=False)
        assert self.log.end_offset >= self.recovery_checkpoint
        kept = [each for each in self.batches if each.next_offset <= self.log.end_offset]
        if self.log.size == 0:
            kept = []  # it begins again, at its start offset where all that was left lay below it
        assert not kept or kept[-1].next_offset == self.log.end_offset
        self.batches, self.end = kept, self.log.end_offset
        self.files.everything_is_synced(self.logs.directory)
        self._start_may_have_gone_back()

    def _open(self, *, clean: bool) -> None:
        self.log = self.logs.open(
            CONFIG,
            clean=clean,
            recovery_point=self.recovery_checkpoint,
            start_offset=self.start_checkpoint,
        )

    def _start_may_have_gone_back(self) -> None:
        self._forget_removed_segments()
        first = self.log.segments.first.base_offset
        assert self.log.start_offset == max(self.start_checkpoint, first)
        self.start = self.log.start_offset
        self.recovery_checkpoint = min(self.recovery_checkpoint, self.end)

    def _forget_removed_segments(self) -> None:
        first = self.log.segments.first.base_offset
        self.batches = [each for each in self.batches if each.base_offset >= first]

    # What always holds --------------------------------------------------------------------

    @invariant()
    def both_hold_the_same(self) -> None:
        log = self.log
        assert (log.start_offset, log.end_offset) == (self.start, self.end)
        assert log.recovery_point <= log.end_offset
        assert log.size == sum(len(each.data) for each in self.batches)
        visible = [each for each in self.batches if each.next_offset > self.start]
        assert read_all(log) == b"".join(each.data for each in visible)

    @invariant()
    def a_consumer_that_follows_gets_what_is_new(self) -> None:
        offset = min(max(self.consumed, self.start), self.end)
        new = [each.data for each in self.batches if each.next_offset > offset]
        assert read_all(self.log, offset) == b"".join(new)
        self.consumed = self.end

    @invariant()
    def every_offset_finds_its_batch(self) -> None:
        for each in self.batches[-6:]:
            for offset in {each.base_offset, each.next_offset - 1}:
                if offset >= self.start:
                    found = self.log.read(offset, 1, self.end, True)
                    assert found is not None
                    data = os.pread(found.file.fd, found.size, found.position)
                    found.file.unpin()
                    assert data == each.data
                    assert next(headers(memoryview(data)))[1].base_offset == each.base_offset

    @invariant()
    def epochs_are_those_of_the_batches(self) -> None:
        for each in self.batches:
            if each.base_offset >= max(self.start, self.epochs_known_from):
                epoch = int.from_bytes(each.data[12:16], "big")
                assert self.log.epochs.epoch_of(each.base_offset) == epoch

    @invariant()
    def the_newest_timestamp_is_found(self) -> None:
        found = self.log.max_timestamp_offset(self.end)
        visible = [each for each in self.batches if each.base_offset >= self.start]
        if visible and len(visible) == len(self.batches):
            assert found is not None
            assert found.timestamp == max(each.timestamp for each in visible)


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
