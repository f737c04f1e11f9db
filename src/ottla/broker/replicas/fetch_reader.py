"""What one partition has for a fetch.

Rules kept here:
1. A partition's own limit holds, except that the first batch found is returned whole (KIP-74), so
   that a reader always gets on.
2. Log files stay pinned from the moment they are read here until they are sent. What a follower
   gets at or above the high watermark can still be truncated and overwritten, even while it is
   queued in a socket: sendfile queues the pages of the file. So it is copied when the answer is
   made. One partition's answer is either committed, and leaves by sendfile, or it is copied.
3. A consumer learns no log start from an error, as in Kafka (-1). A follower does: it may have to
   begin there.
4. Nothing waits for the disk: what is not in memory is read by a thread, and looked at again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.replicas import follower_fetches, rack_aware_reads
from ottla.broker.replicas.cold_reads import begin_to_read
from ottla.broker.replicas.fetch_context import FetchContext
from ottla.broker.replicas.fetch_sessions import CachedPartition
from ottla.log.storage.file_cache import Slice
from ottla.log.storage.page_cache import ColdReadError, in_page_cache, read_stretch
from ottla.security.authorizer import READ, Access
from ottla.security.operations import Operation, ResourceType
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch import READ_COMMITTED, FetchRequest, PartitionData

if TYPE_CHECKING:
    from ottla.broker.replicas.partition import Partition
    from ottla.log.log import Log

Look = tuple[CachedPartition, "Partition | None", PartitionData]
"""What was looked at, and what was seen."""
SENT_TO_THE_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors that come with a hint at the present leader (KIP-951)."""
NAMELESS: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED,)
UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class FetchReader:
    """How one fetch looks at partitions."""

    __slots__ = ("_access", "_committed", "_context", "_listener", "_rack", "follower")

    def __init__(
        self, context: FetchContext, request: FetchRequest, listener: str, access: Access
    ) -> None:
        self._context = context
        self._access = access
        self._committed = request.isolation_level == READ_COMMITTED
        self._rack = request.rack_id
        self._listener = listener
        self.follower = follower_fetches.follower_of(request)

    def look(
        self, wanted: CachedPartition, room: int, whole_first: bool
    ) -> tuple[Partition | None, PartitionData]:
        """What the partition has: at most `room` bytes, or its next batch whole."""
        ask = wanted.ask
        partition: Partition | None = None
        try:
            partition = self._find(wanted)
            if self.follower is None and not self._access.topics[partition.topic] & READ:
                raise self._not_allowed(partition.topic)
            log = partition.log
            diverging = None
            if self.follower is not None:
                diverging = follower_fetches.check(
                    partition, self.follower, ask, self._context.image.brokers
                )
                limit = log.end_offset
                if ask.fetch_offset < partition.high_watermark:
                    limit = partition.high_watermark
            else:
                partition.check_leader_epoch(ask.current_leader_epoch)
                limit = partition.readable_to(self._committed)
                if ask.last_fetched_epoch >= 0:
                    diverging = partition.diverging_epoch(ask.last_fetched_epoch, ask.fetch_offset)
            if diverging is not None:
                high_watermark = stable = -1
                if self.follower is None:
                    high_watermark, stable = partition.high_watermark, log.last_stable_offset
                return partition, PartitionData(
                    ask.partition,
                    0,
                    high_watermark,
                    stable,
                    log.start_offset,
                    diverging=diverging,
                )
            if self._rack and partition.leads:
                better = rack_aware_reads.better_replica(
                    self._context, partition, self._rack, ask.fetch_offset, self._listener
                )
                if better >= 0:
                    return partition, PartitionData(
                        ask.partition,
                        0,
                        partition.high_watermark,
                        log.last_stable_offset,
                        log.start_offset,
                        preferred_read_replica=better,
                    )
            records: Slice | bytes | None = None
            if self.follower is not None and self._is_held_back(partition):
                # It asks again after its longest wait.
                records = None
            elif ask.fetch_offset != limit:
                # Past the limit, but in the log: an earlier leader may have shown it. It waits.
                copied = limit > partition.high_watermark
                most = min(ask.max_bytes, room)
                records = self._read(wanted, log, most, limit, whole_first, copied=copied)
            elif log.offline:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
            aborted: Sequence[tuple[int, int]] | None = None
            if self._committed and not isinstance(records, bytes):
                if records is not None:
                    aborted = _aborted(log, ask.fetch_offset, records, limit)
                elif ask.fetch_offset >= limit or min(ask.max_bytes, room) <= 0:
                    aborted = ()  # else there is room, but too little: a null, as in Kafka
            return partition, PartitionData(
                ask.partition,
                0,
                partition.high_watermark,
                log.last_stable_offset,
                log.start_offset,
                aborted,
                records,
            )
        except KafkaError as error:
            # The code alone: an error in a local variable would hold its own frame.
            code = self._error_code_for(wanted, partition, error.code)
            start = -1
            if partition is not None:
                partition.metrics.failed_fetches += 1
                if self.follower is not None:
                    start = partition.log.start_offset
            leader = None
            if code in SENT_TO_THE_LEADER:
                leader = self._context.leaders.hint(wanted.topic, ask.partition)
            # Kafka has an empty list here where its metadata lack the partition, else a null.
            aborted = () if code in (*UNKNOWN, *NAMELESS) else None
            return partition, PartitionData(
                ask.partition, code, -1, -1, start, aborted, leader=leader
            )

    def _is_held_back(self, partition: Partition) -> bool:
        """Whether a follower gets nothing of a partition for the moment."""
        return self.is_throttled(partition) and self._context.throttle.wait() > 0

    def is_throttled(self, partition: Partition) -> bool:
        """Whether what the follower gets of a partition counts."""
        follower = self.follower
        return follower is not None and self._context.throttle.is_throttled(
            (partition.topic, partition.index), follower.broker
        )

    def _not_allowed(self, topic: str) -> KafkaError:
        """The refusal of a client that may not read a topic; it is logged."""
        self._access.may(Operation.READ, ResourceType.TOPIC, topic)
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _error_code_for(
        self, wanted: CachedPartition, partition: Partition | None, code: ErrorCode
    ) -> ErrorCode:
        """Who may not read a topic does not learn whether it exists."""
        name = wanted.topic
        if partition is not None or self.follower is not None or not isinstance(name, str):
            return code
        return code if self._access.topics[name] & READ else self._not_allowed(name).code

    def _find(self, wanted: CachedPartition) -> Partition:
        ask = wanted.ask
        epoch = ask.current_leader_epoch if self.follower is None else -1
        try:
            return self._context.partitions.find(wanted.topic, ask.partition, epoch)
        except KafkaError:
            if not self._rack:
                raise
            near = rack_aware_reads.copy_of(
                self._context, wanted.topic, ask.partition, ask.fetch_offset
            )
            if near is None:
                raise
            return near

    def _read(
        self,
        wanted: CachedPartition,
        log: Log,
        most: int,
        limit: int,
        whole_first: bool,
        *,
        copied: bool,
    ) -> Slice | bytes | None:
        """Read, or if the disk is needed, look at the partition again when a thread has read it."""
        offset = wanted.ask.fetch_offset
        warm, wanted.warm = wanted.warm, ""
        try:
            found = log.read(offset, most, limit, whole_first, may_wait=False)
            return _copy(log, found, may_wait=False) if copied and found is not None else found
        except ColdReadError as cold:
            place = str(cold)
            if place == warm:  # the kernel has dropped it again
                found = log.read(offset, most, limit, whole_first)
                return _copy(log, found, may_wait=True) if copied and found is not None else found
            if not wanted.warming:
                wanted.warming = True
                reading = begin_to_read(self._context.cold_readers, cold)
                reading.add_done_callback(lambda done: _is_warm(done, wanted, place))
            return None

    def has_read_all(
        self, wanted: CachedPartition, partition: Partition, data: PartitionData
    ) -> bool:
        """True if the reader has all that it may read of the partition."""
        if data.error_code or data.diverging or data.records is not None:
            return False
        if self.follower is not None:
            return wanted.ask.fetch_offset >= partition.log.end_offset
        limit = data.high_watermark
        if self._committed:
            limit = min(limit, data.last_stable_offset)
        return wanted.ask.fetch_offset >= limit


def _is_warm(reading: asyncio.Future[None], wanted: CachedPartition, place: str) -> None:
    if not reading.cancelled():
        reading.exception()  # the next read reports it
        wanted.has_been_read(place)


def _copy(log: Log, stretch: Slice, *, may_wait: bool) -> bytes:
    """The bytes of a stretch, which is let go of; ColdReadError as Log.read()."""
    file, position, size = stretch
    try:
        if not may_wait and not in_page_cache(file.fd, position, size):
            raise ColdReadError(stretch)
        return read_stretch(stretch)
    except OSError as error:
        raise log.failed(error) from error
    finally:
        file.unpin()


def _aborted(log: Log, offset: int, records: Slice, limit: int) -> list[tuple[int, int]]:
    try:
        return log.aborted_in(offset, records, limit)
    except BaseException:
        records.file.unpin()
        raise


def unpin(data: PartitionData) -> None:
    """Let go of the file that the records are in."""
    if isinstance(data.records, Slice):
        data.records.file.unpin()
