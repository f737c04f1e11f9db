"""One replica of a partition: its log, its role, its high watermark, and who waits on it.

Rules kept here:
1. Readers see nothing at or above the high watermark; with read_committed nothing at or above
   the last stable offset.
2. A change that a reader may wait for (an append, a new high watermark, a new leader, the end
   of the partition) wakes it once; a reader that is not satisfied registers again.
3. Nothing is answered before what is promised is true: a produce, a coordinator or a marker that
   reaches `flush.messages` waits for the fsync. What a leader sends begins one without a waiter.
4. It leads, follows or stands by. Only who leads appends; only who follows copies. Losing the
   leadership fails everyone who waits for a commit; they are notified when the role is given up
   everywhere, for their connections go on with the next request at once.
5. `leadership` is None where there is one replica: it commits what it appends. With more, the high
   watermark is what the leadership says, and followers are woken by appends, consumers by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.replicas.commit_waiters import NOBODY, CommitWaiters
from ottla.config.topic_names import INTERNAL_TOPICS
from ottla.log.appended import Appended
from ottla.log.log import Log
from ottla.log.validation.inspection import Inspected
from ottla.replication.follower import Following
from ottla.replication.replicas import Leadership
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from uuid import UUID

    from ottla.broker.metrics.counters import TopicMetrics
    from ottla.broker.scheduling.flusher import Flusher


OWED_AGAIN_SECONDS: Final = 5.0
"""After a flush that a caller waits for and that a full disk did not take."""


class PartitionReader(Protocol):
    """A waiter for a partition to change."""

    def wake(self) -> None:
        """The partition has changed; called once for each registration."""

    def has_news(self) -> None:
        """Something changed that can wait until the next wake-up."""


class Partition:
    """A replica of a partition on this broker."""

    __slots__ = (
        "_flush_later",
        "_flusher",
        "_flushing",
        "_followers",
        "_owed",
        "_readers",
        "_waiters",
        "agreed_epoch",
        "deleted",
        "following",
        "halts",
        "has_unflushed",
        "high_watermark",
        "index",
        "is_internal",
        "is_short",
        "leader_epoch",
        "leadership",
        "leads",
        "log",
        "metrics",
        "odd_starts",
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
        flusher: Flusher,
    ) -> None:
        self.topic = topic
        self.is_internal = topic in INTERNAL_TOPICS
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.log = log
        self.metrics = metrics
        self.high_watermark = log.end_offset
        self.deleted = False
        self.halts = 0
        """How often, in this term, nothing was copied: the leader lacks committed records."""
        self.odd_starts = 0
        """How often, in this term, nothing explained where the leader's log starts."""
        self.agreed_epoch = -1
        """The last leader epoch in which the log was seen to agree with its leader's."""
        self.is_short = False
        """The log was opened without records that were known as committed, and has not agreed with
        a leader's since."""
        self.has_unflushed = False
        self._flush_later = flush_later
        self._flusher = flusher
        self.leads = False
        self.leadership: Leadership | None = None
        self.following: Following | None = None
        self._readers: dict[PartitionReader, None] = {}
        self._followers: dict[PartitionReader, None] = {}
        self._waiters = CommitWaiters()
        self._flushing: asyncio.Task[None] | None = None
        self._owed = 0
        """Up to here what was appended is to be on disk before it counts; 0: all of that is."""

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    # Roles --------------------------------------------------------------------------------

    def opened(self, high_watermark: int) -> None:
        """The log was opened, with this high watermark. The replica has no role yet."""
        self.is_short = high_watermark > self.log.end_offset
        self._set_high_watermark(min(high_watermark, self.log.end_offset))

    def lead(self, leader_epoch: int, leadership: Leadership | None) -> None:
        """Begin a term as leader; without a leadership as the only replica."""
        self.following = None
        self.halts = self.odd_starts = 0
        self.is_short = False
        self.agreed_epoch = leader_epoch
        self.leader_epoch = leader_epoch
        self.leadership = leadership
        self.leads = True
        if leadership is None:
            self.high_watermark = self.log.end_offset
            self.log.high_watermark = None
        else:
            self._set_high_watermark(leadership.high_watermark)
        self.wake_all()

    def stand_by(self) -> None:
        """End a term as leader. No waiter sees it before `fail_waiters`."""
        self.leads = False
        self.leadership = None
        self.log.high_watermark = self.high_watermark

    def fail_waiters(self) -> None:
        """Fail the requests that wait for a commit: this broker can no longer promise it."""
        self._waiters.lost()

    def follow(self, leader_epoch: int, following: Following | None) -> None:
        """Begin a term as follower; without a following nobody leads, and it stands by."""
        self.stand_by()
        self.halts = self.odd_starts = 0
        self.leader_epoch = leader_epoch
        self.following = following
        self.wake_all()

    def get_replicas(self, leadership: Leadership) -> None:
        """The only replica gets others, in the middle of its term."""
        self.leadership = leadership
        self._set_high_watermark(leadership.high_watermark)

    def high_watermark_grew(self) -> None:
        """The leadership has a higher one: wake those that waited for it."""
        assert self.leadership is not None
        self._set_high_watermark(self.leadership.high_watermark)
        self._waiters.committed(self.safe_offset)
        self.wake_readers()
        for follower in self._followers:
            follower.has_news()

    def _set_high_watermark(self, offset: int) -> None:
        self.high_watermark = self.log.high_watermark = offset

    def _check_leads(self) -> None:
        if not self.leads:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self}")

    # Copying ------------------------------------------------------------------------------

    def copy(self, batches: memoryview, now: int, leader_epoch: int) -> bool:
        """Append what the leader of an epoch has sent, byte for byte.

        False where some of it is of a newer epoch: that is left out.
        """
        is_all = self.log.append_as_follower(batches, now, leader_epoch=leader_epoch)
        self._has_grown()
        self._flush_if_due()
        return is_all

    def mark(self, high_watermark: int, log_start: int) -> None:
        """Where the leader says that commits end and the log begins, as far as it goes here."""
        grew = high_watermark != self.high_watermark
        self._set_high_watermark(high_watermark)
        if log_start > self.log.start_offset:
            self.log.raise_start_offset(log_start)
        if grew:
            self.wake_readers()

    def was_truncated(self) -> None:
        """The log was truncated: nothing past its end is committed, as far as is known here."""
        self._set_high_watermark(min(self.high_watermark, self.log.end_offset))
        self._owed = min(self._owed, self.log.end_offset)

    # Writing ------------------------------------------------------------------------------

    def append(
        self,
        records: memoryview | None,
        now: int,
        api_version: int,
        looked: Inspected | None = None,
    ) -> Appended:
        """Append one producer's batch; raises KafkaError with what is wrong with it.

        Raises LongBodyError where a thread has to look into it first.
        """
        if records is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "the record batch is missing")
        self._check_leads()
        log = self.log
        appended = log.append(
            records,
            now=now,
            leader_epoch=self.leader_epoch,
            api_version=api_version,
            looked=looked,
            may_wait=False,
        )
        if not appended.duplicate:
            metrics = self.metrics
            metrics.bytes_in += len(records)
            metrics.messages_in += appended.last_offset - appended.base_offset + 1
            self._appended()
        return appended

    def append_own(self, batch: memoryview, now: int) -> Appended:
        """Append what a coordinator of this broker writes."""
        self._check_leads()
        appended = self.log.append(
            batch, now=now, leader_epoch=self.leader_epoch, from_client=False
        )
        self._appended()
        self._flush_if_due()
        return appended

    def append_marker(self, marker: memoryview, now: int, transaction_version: int) -> None:
        """Append the control batch that ends a producer's transaction here."""
        self._check_leads()
        self.log.append_marker(
            marker,
            now=now,
            leader_epoch=self.leader_epoch,
            transaction_version=transaction_version,
        )
        self._appended()
        self._flush_if_due()

    def _appended(self) -> None:
        if self.leadership is None:
            self.high_watermark = self.log.end_offset
            if self._readers:
                self.wake_readers()
        elif self.leadership.appended(self.log.end_offset):
            self.high_watermark_grew()
        if not self.has_unflushed:
            self.has_unflushed = True
            self._flush_later(self)
        if self._followers:
            self.wake_followers()

    def _has_grown(self) -> None:
        if not self.has_unflushed:
            self.has_unflushed = True
            self._flush_later(self)

    @property
    def safe_offset(self) -> int:
        """Below this everything is committed, and on disk where a flush of it is required."""
        if not self._owed:
            return self.high_watermark
        return min(self.high_watermark, self.log.recovery_point)

    def when_committed(
        self,
        offset: int,
        action: Callable[[], object],
        lost: Callable[[], object] | None = None,
    ) -> int:
        """Do something once all records below an offset are safe, or another if they get lost.

        They may be lost when this broker no longer leads. A caller that stops waiting says so
        with `give_up` and the number that is returned.
        """
        if not self.leads:
            if lost is not None:
                lost()
        elif offset <= self.safe_offset:
            action()
        else:
            return self._waiters.add(offset, action, lost)
        return NOBODY

    def give_up(self, number: int) -> None:
        """A caller no longer waits for a commit."""
        self._waiters.give_up(number)

    @property
    def waiting(self) -> int:
        """How many wait for a commit."""
        return len(self._waiters)

    async def flush(self) -> None:
        """Bring everything appended so far to the disk; raises KAFKA_STORAGE_ERROR if it fails.

        Callers that come while a flush is under way wait for the next one and share it: the
        one under way may have begun before their records were written. Records that are truncated
        meanwhile are not waited for: no flush will ever cover them.
        """
        wanted = self.log.end_offset
        while self.log.recovery_point < min(wanted, self.log.end_offset):
            await asyncio.shield(self._begin_flush())
            if self.log.offline:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self} could not be flushed")

    def _flush_if_due(self) -> None:
        """Owe a flush of all that is there, where `flush.messages` is reached."""
        if self.log.flush_is_due:
            self._owed = self.log.end_offset
            self._begin_flush()

    def _begin_flush(self) -> asyncio.Task[None]:
        """The flush that is under way, or a new one."""
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush_once())
            self._flushing.add_done_callback(self._flush_done)
        return self._flushing

    def _flush_done(self, task: asyncio.Task[None]) -> None:
        if self._flushing is task:
            self._flushing = None
        # A failure is seen by its waiters; the log is offline by now, or is flushed later.
        failed = task.cancelled() or task.exception() is not None
        if not self._owed:
            return
        if self.log.offline:
            self._waiters.lost()
            return
        if self.log.recovery_point >= min(self._owed, self.log.end_offset):
            self._owed = 0
        elif failed:
            asyncio.get_running_loop().call_later(OWED_AGAIN_SECONDS, self._flush_owed)
        else:
            self._begin_flush()
        self._waiters.committed(self.safe_offset)

    def _flush_owed(self) -> None:
        if self._owed and not self.log.offline:
            self._begin_flush()

    async def _flush_once(self) -> None:
        flush = self.log.begin_flush()
        if flush is None:
            return
        try:
            await self._flusher.flushed(flush)
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
        found = self.end_of_epoch(epoch)
        if found is None:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{self} has no record of leader epoch {epoch}"
            )
        known, end = found
        if known < epoch or end < offset:
            return known, end
        return None

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """The largest known epoch up to the asked one, and where it ends; None: not known.

        The present term counts from its beginning, though the log knows it from its first record.
        """
        epochs = self.log.epochs
        if epochs.latest < epoch <= self.leader_epoch and self.leads:
            is_known = epochs.latest >= 0 and epoch < self.leader_epoch
            return epochs.latest if is_known else epoch, self.log.end_offset
        return epochs.end_offset_for(epoch, self.log.end_offset)

    # Waiting ------------------------------------------------------------------------------

    def add_reader(self, reader: PartitionReader, is_follower: bool = False) -> None:
        """Wake this reader at the next change."""
        (self._followers if is_follower else self._readers)[reader] = None

    def remove_reader(self, reader: PartitionReader) -> None:
        """Stop waking this reader."""
        self._readers.pop(reader, None)
        self._followers.pop(reader, None)

    def wake_followers(self) -> None:
        """There is something to copy."""
        followers, self._followers = self._followers, {}
        for follower in followers:
            follower.wake()

    def wake_all(self) -> None:
        """Something changed that matters to consumers and followers."""
        self.wake_readers()
        self.wake_followers()

    def wake_readers(self) -> None:
        """Something changed that a reader may wait for."""
        readers = self._readers
        if readers:
            self._readers = {}
            for reader in readers:
                reader.wake()

    def retire(self) -> None:
        """The partition leaves this broker: requests that wait on it are answered now."""
        self.deleted = True
        self.wake_all()
