"""Answering a fetch: at once where there is enough, else parked until there is.

Rules kept here:
1. A fetch is answered when `min.bytes` are there, when a partition has an error or has moved
   away, when there is nothing to wait for, or when `max.wait.ms` is over. Nothing polls.
2. `max.bytes` and a partition's own limit hold, except that the first batch found is returned
   whole (KIP-74), so that a reader always gets on.
3. A partition that gave records goes behind the others, so that none is starved.
4. Log files stay pinned from the moment they are read here until they are sent. What a follower
   gets at or above the high watermark can still be truncated and overwritten, even while it is
   queued in a socket: sendfile queues the pages of the file. So it is copied when the answer is
   made. One partition's answer is either committed, and leaves by sendfile, or it is copied.
5. A partition leaves the session's ready ones only when the reader has all that it may read of it.
   One whose next batch had no room this time, or is not in memory yet, stays: nothing else would
   bring it back.
6. A consumer learns no log start from an error, as in Kafka (-1). A follower does: it may have to
   begin there.
7. A partition that a consumer's fetch names and that is not known when it comes answers it only
   where none of the others is known either, as in Kafka: else its client would ask in a busy loop.
   Followers hear of it at once: they may be ahead of this broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.broker.cold_reads import begin_to_read
from ottla.broker.fetch_sessions import NO_SESSION, FetchSession, Wanted
from ottla.broker.leader_hints import leader_hint
from ottla.broker.replication import follower_fetches, nearby
from ottla.log.files import ColdReadError, Slice, in_page_cache, read_stretch
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch import READ_COMMITTED, FetchRequest, PartitionData
from ottla.wire.produce import TopicKey

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.broker.partition import Partition
    from ottla.log.log import Log

Answer = list[tuple[TopicKey, list[PartitionData]]]
LONGEST_WAIT_MS: Final = 2**31 - 1
SENT_TO_THE_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors that come with a hint at the present leader (KIP-951)."""
UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class Fetch:
    """One fetch request, from its arrival to its answer."""

    __slots__ = (
        "_answered",
        "_committed",
        "_follower",
        "_full",
        "_listener",
        "_max_bytes",
        "_min_bytes",
        "_node",
        "_poked",
        "_rack",
        "_timer",
        "_unknown",
        "on_answer",
        "session",
    )

    def __init__(
        self, node: Node, session: FetchSession, full: bool, request: FetchRequest, listener: str
    ) -> None:
        self._node = node
        self.session = session
        self._full = full
        self._max_bytes = min(request.max_bytes, node.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._committed = request.isolation_level == READ_COMMITTED
        self._rack = request.rack_id
        self._listener = listener
        self._follower = follower_fetches.follower_of(request)
        if self._follower is not None:
            follower_fetches.note_positions(node, self._follower, request)
        self._unknown: set[Wanted] = set()
        """Those that were not known when the request came."""
        self._timer: asyncio.TimerHandle | None = None
        self._poked = False
        self._answered = False
        self.on_answer: Callable[[Answer | None], None] | None = None

    def answer_now(self) -> Answer | None:
        """The answer, if it need not wait."""
        return self._try(last_chance=False)

    def answer_at_last(self) -> Answer:
        """The answer with whatever there is."""
        answer = self._try(last_chance=True)
        assert answer is not None
        return answer

    def park(self, max_wait_ms: int, on_answer: Callable[[Answer | None], None]) -> None:
        """Answer later: when enough is there, or when the wait is over; None where that fails."""
        self.on_answer = on_answer
        self.session.parked = self
        self._node.parked_fetches += 1
        self._timer = asyncio.get_running_loop().call_later(max_wait_ms / 1000, self._time_is_up)

    def poke(self) -> None:
        """A partition has news; looked at once for all that comes in this turn of the loop."""
        if not self._poked:
            self._poked = True
            asyncio.get_running_loop().call_soon(self._look_again)

    def abandon(self) -> None:
        """The client has gone."""
        if not self._answered:
            self._unpark()
            if self.session.id == NO_SESSION:
                self.session.end()

    def _look_again(self) -> None:
        self._poked = False
        if not self._answered:
            self._answer_late(last_chance=False)

    def _time_is_up(self) -> None:
        if not self._answered:
            self._answer_late(last_chance=True)

    def _answer_late(self, *, last_chance: bool) -> None:
        try:
            answer = self._try(last_chance)
        except Exception:
            self._finish(None)  # its client must not wait for ever
            raise
        if answer is not None:
            self._finish(answer)

    def _finish(self, answer: Answer | None) -> None:
        on_answer = self.on_answer
        assert on_answer is not None
        self._unpark()
        on_answer(answer)

    def _unpark(self) -> None:
        self._answered = True
        self._node.parked_fetches -= 1
        if self.session.parked is self:
            self.session.parked = None
        if self._timer is not None:
            self._timer.cancel()
        self.on_answer = self._timer = None  # or this and what it points to would hold each other

    # Looking ------------------------------------------------------------------------------

    def _try(self, last_chance: bool) -> Answer | None:
        found: list[tuple[Wanted, Partition | None, PartitionData]] = []
        room = self._max_bytes
        size = 0
        urgent = last_chance
        session = self.session
        try:
            for wanted in list(session.wanted.values() if self._full else session.ready):
                partition, data = self._look(wanted, room, whole_first=size == 0)
                found.append((wanted, partition, data))
                if data.records is not None:
                    size += data.size
                    room = max(0, room - data.size)
                elif data.error_code or data.diverging or data.preferred_read_replica >= 0:
                    if self._is_unknown(wanted, data):
                        self._unknown.add(wanted)
                    else:
                        urgent = True
        except BaseException:
            for _, _, data in found:
                _unpin(data)
            raise
        if len(self._unknown) == len(session.wanted):
            urgent = True
        if not urgent and size < self._min_bytes:
            self._wait(found)
            return None
        return self._answer(found)

    def _is_unknown(self, wanted: Wanted, data: PartitionData) -> bool:
        """True if the partition is not known, and was not when the request came."""
        if self._follower is not None or data.error_code not in UNKNOWN:
            return False
        return self._timer is None or wanted in self._unknown

    def _look(
        self, wanted: Wanted, room: int, whole_first: bool
    ) -> tuple[Partition | None, PartitionData]:
        ask = wanted.ask
        partition: Partition | None = None
        try:
            partition = self._find(wanted)
            log = partition.log
            diverging = None
            if self._follower is not None:
                diverging = follower_fetches.check(partition, self._follower, ask)
                limit = log.end_offset
                if ask.fetch_offset < partition.high_watermark:
                    limit = partition.high_watermark
            else:
                partition.check_leader_epoch(ask.current_leader_epoch)
                limit = partition.readable_to(self._committed)
                if ask.last_fetched_epoch >= 0:
                    diverging = partition.diverging_epoch(ask.last_fetched_epoch, ask.fetch_offset)
            if diverging is not None:
                return partition, PartitionData(
                    ask.partition, 0, -1, -1, log.start_offset, diverging=diverging
                )
            if self._rack and partition.leads:
                better = nearby.better_replica(
                    self._node, partition, self._rack, ask.fetch_offset, self._listener
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
            if ask.fetch_offset != limit:
                # Past the limit, but in the log: an earlier leader may have shown it. It waits.
                copied = limit > partition.high_watermark
                most = min(ask.max_bytes, room)
                records = self._read(wanted, log, most, limit, whole_first, copied=copied)
            elif log.offline:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
            aborted = None
            if self._committed and not isinstance(records, bytes):
                aborted = _aborted(log, ask.fetch_offset, records, limit)
            return partition, PartitionData(
                ask.partition,
                0,
                partition.high_watermark,
                log.last_stable_offset,
                log.start_offset,
                aborted,
                records,
            )
        except KafkaError as problem:
            start = -1
            if partition is not None:
                partition.metrics.failed_fetches += 1
                if self._follower is not None:
                    start = partition.log.start_offset
            leader = None
            if problem.code in SENT_TO_THE_LEADER:
                leader = leader_hint(self._node, wanted.topic, ask.partition)
            return partition, PartitionData(
                ask.partition, problem.code, -1, -1, start, leader=leader
            )

    def _find(self, wanted: Wanted) -> Partition:
        ask = wanted.ask
        epoch = ask.current_leader_epoch if self._follower is None else -1
        try:
            return self._node.partitions.find(wanted.topic, ask.partition, epoch)
        except KafkaError:
            if not self._rack:
                raise
            near = nearby.copy_of(self._node, wanted.topic, ask.partition, ask.fetch_offset)
            if near is None:
                raise
            return near

    def _read(
        self, wanted: Wanted, log: Log, most: int, limit: int, whole_first: bool, *, copied: bool
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
                reading = begin_to_read(self._node, cold)
                reading.add_done_callback(lambda done: _is_warm(done, wanted, place))
            return None

    def _wait(self, found: list[tuple[Wanted, Partition | None, PartitionData]]) -> None:
        ready = self.session.ready
        for wanted, partition, data in found:
            _unpin(data)
            if partition is None:
                continue  # unknown: reported when the wait is over
            if self._has_read_all(wanted, partition, data) and (
                # A new high watermark is reported to a follower when its wait is over.
                self._follower is None or not wanted.is_news(data)
            ):
                ready.pop(wanted, None)
            wanted.wait_on(partition)

    def _answer(self, found: list[tuple[Wanted, Partition | None, PartitionData]]) -> Answer:
        session = self.session
        ready = session.ready
        kept = session.id != NO_SESSION
        answer: Answer = []
        previous: TopicKey | None = None
        for wanted, partition, data in found:
            records = data.records
            if partition is not None:
                if self._follower is None:
                    partition.metrics.fetches += 1
                    if isinstance(records, Slice):
                        offset = wanted.ask.fetch_offset
                        partition.metrics.bytes_out += records.size
                        partition.metrics.messages_out += (
                            partition.log.end_of(offset, records) - offset
                        )
                if kept and self._has_read_all(wanted, partition, data):
                    ready.pop(wanted, None)
                    wanted.wait_on(partition)
            if kept and records is not None and wanted in ready:
                del ready[wanted]
                ready[wanted] = None
            if wanted.must_tell(data) or self._full:
                if wanted.topic != previous:
                    previous = wanted.topic
                    answer.append((previous, []))
                answer[-1][1].append(data)
        if not kept:
            session.end()
        return answer

    def _has_read_all(self, wanted: Wanted, partition: Partition, data: PartitionData) -> bool:
        if data.error_code or data.diverging or data.records is not None:
            return False
        if self._follower is not None:
            return wanted.ask.fetch_offset >= partition.log.end_offset
        limit = data.high_watermark
        if self._committed:
            limit = min(limit, data.last_stable_offset)
        return wanted.ask.fetch_offset >= limit


def _is_warm(reading: asyncio.Future[None], wanted: Wanted, place: str) -> None:
    if not reading.cancelled():
        reading.exception()  # whoever reads it again hears of it
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


def _aborted(log: Log, offset: int, records: Slice | None, limit: int) -> list[tuple[int, int]]:
    if records is None:
        return []
    try:
        return log.aborted_in(offset, records, limit)
    except BaseException:
        records.file.unpin()
        raise


def _unpin(data: PartitionData) -> None:
    if isinstance(data.records, Slice):
        data.records.file.unpin()
