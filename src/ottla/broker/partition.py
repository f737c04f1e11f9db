"""One partition that this broker leads: its log, its high watermark, and who waits on it.

Rules kept here:
1. Readers see nothing at or above the high watermark; with read_committed nothing at or above
   the last stable offset.
2. A change that a reader may wait for (an append, a new high watermark, a new leader, the end
   of the partition) wakes it once; a reader that is not satisfied registers again.
3. No produce is answered before what its acks promise is true: `flush.messages` waits for the
   fsync.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.log.appended import Appended
from ottla.log.log import Log
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from uuid import UUID

    from ottla.broker.metrics import TopicMetrics


class Reader(Protocol):
    """Somebody who waits for a partition to change."""

    def wake(self) -> None:
        """The partition has changed; called once for each registration."""


class Partition:
    """A partition's state on its leader."""

    __slots__ = (
        "_flush_later",
        "_flushing",
        "_readers",
        "deleted",
        "has_unflushed",
        "high_watermark",
        "index",
        "leader_epoch",
        "log",
        "metrics",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: UUID,
        index: int,
        leader_epoch: int,
        log: Log,
        metrics: TopicMetrics,
        flush_later: Callable[[Partition], None],
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.log = log
        self.metrics = metrics
        self.high_watermark = log.end_offset
        self.deleted = False
        self.has_unflushed = False
        self._flush_later = flush_later
        self._readers: dict[Reader, None] = {}
        self._flushing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    # Writing ------------------------------------------------------------------------------

    def append(self, records: memoryview | None, now: int, api_version: int) -> Appended:
        """Append one producer's batch; raises KafkaError with what is wrong with it."""
        if records is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a batch is missing")
        log = self.log
        appended = log.append(
            records, now=now, leader_epoch=self.leader_epoch, api_version=api_version
        )
        if not appended.duplicate:
            metrics = self.metrics
            metrics.bytes_in += len(records)
            metrics.messages_in += appended.last_offset - appended.base_offset + 1
            self._appended()
        return appended

    def append_own(self, batch: memoryview, now: int) -> Appended:
        """Append what a coordinator of this broker writes."""
        appended = self.log.append(
            batch, now=now, leader_epoch=self.leader_epoch, from_client=False
        )
        self._appended()
        return appended

    def append_marker(self, marker: memoryview, now: int) -> None:
        """Append the control batch that ends a producer's transaction here."""
        self.log.append_marker(marker, now=now, leader_epoch=self.leader_epoch)
        self._appended()

    def _appended(self) -> None:
        self.high_watermark = self.log.end_offset
        if not self.has_unflushed:
            self.has_unflushed = True
            self._flush_later(self)
        if self._readers:
            self.wake_readers()

    def when_committed(self, offset: int, action: Callable[[], object]) -> None:
        """Do something once all records below an offset are committed."""
        assert offset <= self.high_watermark, "a single replica commits what it appends"
        action()

    async def flush(self) -> None:
        """Bring everything appended so far to the disk; raises KAFKA_STORAGE_ERROR if it fails.

        Callers that come while a flush is under way wait for the next one and share it: the
        one under way may have begun before their records were written.
        """
        wanted = self.log.end_offset
        while self.log.recovery_point < wanted:
            if self._flushing is None or self._flushing.done():
                self._flushing = asyncio.get_running_loop().create_task(self._flush_once())
                self._flushing.add_done_callback(self._flush_done)
            await asyncio.shield(self._flushing)
            if self.log.offline:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self} could not be flushed")

    def _flush_done(self, task: asyncio.Task[None]) -> None:
        if self._flushing is task:
            self._flushing = None
        if not task.cancelled():
            task.exception()  # seen by whoever awaited it; the log is offline by now

    async def _flush_once(self) -> None:
        flush = self.log.begin_flush()
        if flush is None:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(None, flush.run)
        except OSError as problem:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self} could not be flushed: {problem.strerror}"
            ) from None
        finally:
            self.log.end_flush(flush)  # takes the log offline where the disk failed
            if self.log.offline:
                self.wake_readers()

    async def settled(self) -> None:
        """Wait until no flush is under way."""
        while self._flushing is not None and not self._flushing.done():
            await asyncio.wait((self._flushing,))

    # Reading ------------------------------------------------------------------------------

    def readable_to(self, read_committed: bool) -> int:
        """The offset below which a reader of this isolation may read."""
        if not read_committed:
            return self.high_watermark
        return min(self.high_watermark, self.log.last_stable_offset)

    def check_leader_epoch(self, epoch: int) -> None:
        """Refuse a client that knows an older leader, or a newer one than we do."""
        if epoch < 0 or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def diverging_epoch(self, epoch: int, offset: int) -> tuple[int, int] | None:
        """Where a reader whose log ends at `offset` in `epoch` parted from this log, if it did."""
        found = self.log.epochs.end_offset_for(epoch, self.log.end_offset)
        if found is None:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{self} has no record of leader epoch {epoch}"
            )
        known, end = found
        if known < epoch or end < offset:
            return known, end
        return None

    # Waiting ------------------------------------------------------------------------------

    def add_reader(self, reader: Reader) -> None:
        """Wake this reader at the next change."""
        self._readers[reader] = None

    def remove_reader(self, reader: Reader) -> None:
        """Wake this reader no more."""
        self._readers.pop(reader, None)

    def wake_readers(self) -> None:
        """Something changed that a reader may wait for."""
        readers = self._readers
        if readers:
            self._readers = {}
            for reader in readers:
                reader.wake()

    def retire(self) -> None:
        """The partition leaves this broker: those who wait learn it now."""
        self.deleted = True
        self.wake_readers()
