"""Answering a fetch: at once where there is enough, else parked until there is.

Rules kept here:
1. A fetch is answered when `min.bytes` are there, when a partition has an error or has moved
   away, when there is nothing to wait for, or when `max.wait.ms` is over. Nothing polls.
2. `max.bytes` holds, except that the first batch found is returned whole (KIP-74).
3. A partition of a session that gave records goes behind the others, so that none is starved.
4. A partition leaves the session's ready ones only when the reader has all that it may read of it.
   One whose next batch did not fit this time, or is not in memory yet, stays: nothing else would
   bring it back.
5. A partition that a consumer's fetch names and that is not known when it comes answers it only
   where none of the others is known either, as in Kafka: else its client would ask in a busy loop.
   Followers get it at once: they may be ahead of this broker.
6. A parked fetch that is woken looks at the partitions that woke it, and adds up what they have. It
   looks at all of them once that is enough, and is answered with what it finds then, as in Kafka.
7. Many partitions are looked at in turns of the loop. What changes in between is not missed: a
   partition is looked at, leaves the ready ones and is waited on in the same turn, and whatever
   wakes it later puts it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from ottla.broker.replicas import follower_fetches
from ottla.broker.replicas.fetch_context import FetchContext
from ottla.broker.replicas.fetch_reader import UNKNOWN, FetchReader, Look, unpin
from ottla.broker.replicas.fetch_sessions import NO_SESSION, CachedPartition, FetchSession
from ottla.broker.scheduling.turns import Turns
from ottla.later import Later
from ottla.log.storage.file_cache import Slice
from ottla.security.authorizer import EVERYTHING, Access
from ottla.wire.fetch import FetchRequest, PartitionData
from ottla.wire.produce import TopicKey

T = TypeVar("T")

Answer = list[tuple[TopicKey, list[PartitionData]]]
MOST_AT_ONCE: Final = 500
"""Partitions that are looked at in one turn of the loop."""
PIECE: Final = 50
"""Partitions between two looks at the clock."""
FEW: Final = 10
"""Up to this number all partitions are checked again, changed or not."""
ANYTHING: Final = 1
WHATEVER: Final = 0
"""A fetch is answered with this many bytes, whatever `min.bytes` says."""


class DelayedFetch:
    """One fetch request, from its arrival to its answer."""

    __slots__ = (
        "_answered",
        "_context",
        "_dirty",
        "_full",
        "_later",
        "_looking",
        "_max_bytes",
        "_max_wait_ms",
        "_min_bytes",
        "_poked",
        "_positions",
        "_size",
        "_sizes",
        "_time_over",
        "_timer",
        "_unknown",
        "_work",
        "session",
    )
    # Of a parked one:
    _dirty: dict[CachedPartition, None]
    """Those that have woken it and are not looked at yet."""
    _sizes: dict[CachedPartition, int]
    """What each had when it was last looked at, and `_size` of all together."""
    _size: int

    def __init__(
        self,
        context: FetchContext,
        session: FetchSession,
        full: bool,
        request: FetchRequest,
        listener: str,
        access: Access = EVERYTHING,
        *,
        noted: bool = False,
    ) -> None:
        """`noted`: the positions of a follower are noted already."""
        self._context = context
        self.session = session
        self._full = full
        self._max_bytes = min(request.max_bytes, context.config.current.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._max_wait_ms = request.max_wait_ms
        self._looking = FetchReader(context, request, listener, access)
        is_new = self._looking.follower is not None and not noted
        self._positions = request.topics if is_new else None
        """Where a follower has come to, until that is noted."""
        self._unknown: set[CachedPartition] = set()
        """Those that were not known when the request came."""
        self._timer: asyncio.TimerHandle | None = None
        self._poked = False
        self._answered = False
        self._time_over = False
        self._later: Later[Answer] | None = None
        self._work: asyncio.Task[None] | None = None
        """Looks at many partitions, while this is under way."""

    def begin(self) -> Answer | Later[Answer]:
        """The answer, now if it need not wait, or later."""
        if self._positions is not None:
            self._note_positions()
        least = self._min_bytes if self._max_wait_ms > 0 else WHATEVER
        session = self.session
        if len(session.wanted if self._full else session.ready) > MOST_AT_ONCE:
            later = self._park()
            self._start(least)
            return later
        answer = self._try(least)
        if answer is not None:
            return answer
        later = self._park()
        self._start_timer()
        return later

    def poke(self, wanted: CachedPartition) -> None:
        """A partition has news; looked at once for all that comes in this turn of the loop."""
        self._dirty[wanted] = None
        if not self._poked:
            self._poked = True
            asyncio.get_running_loop().call_soon(self._look_again)

    def _note_positions(self) -> None:
        """Count what a follower has copied, which may commit and acknowledge records."""
        follower, positions = self._looking.follower, self._positions
        self._positions = None
        if follower is not None and positions is not None:
            follower_fetches.note_positions(self._context, follower, positions)

    # Waiting ------------------------------------------------------------------------------

    def _park(self) -> Later[Answer]:
        """Answer later: when enough is there, or when the wait is over."""
        later: Later[Answer] = Later()
        later.when_abandoned(self._abandon)
        self._later = later
        self._dirty = {}
        self.session.parked = self
        self._context.delayed.fetches += 1
        return later

    def _start_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._max_wait_ms / 1000, self._time_is_up)

    def _abandon(self) -> None:
        """The client has gone."""
        if not self._answered:
            self._unpark()
            self._end_if_single()

    def _unpark(self) -> None:
        self._answered = True
        self._context.delayed.fetches -= 1
        if self.session.parked is self:
            self.session.parked = None
        if self._timer is not None:
            self._timer.cancel()
        if self._work is not None:
            self._work.cancel()
        # Or this and what it points to would hold each other.
        self._later = self._timer = self._work = None

    def _end_if_single(self) -> None:
        if self.session.id == NO_SESSION:
            self.session.end()

    def _time_is_up(self) -> None:
        self._time_over = True
        self._look_again()

    def _look_again(self) -> None:
        self._poked = False
        if self._answered or self._work is not None:
            return
        try:
            count = len(self.session.wanted if self._full else self.session.ready)
            if self._time_over:
                least: int | None = WHATEVER
            elif count <= FEW:
                least = self._min_bytes
            else:
                least = self._is_due(count)
            if least is None:
                return
            if count > MOST_AT_ONCE:
                self._start(least)
                return
            self._dirty.clear()
            answer = self._try(least)
        except Exception as problem:  # noqa: BLE001 its client must not wait for ever
            self._fail(problem)
        else:
            if answer is not None:
                self._complete(answer)

    def _is_due(self, count: int) -> int | None:
        """With how many bytes it may be answered, by what has changed; None: it has to wait."""
        changed = len(self._dirty)
        if changed >= count and not self._full:
            return self._min_bytes
        if changed > MOST_AT_ONCE:
            self._start(None)
            return None
        return ANYTHING if self._add_changes(self._taken_dirty()) else None

    def _complete(self, answer: Answer) -> None:
        later = self._later
        assert later is not None
        self._unpark()
        later.complete(answer)

    def _fail(self, problem: Exception) -> None:
        later = self._later
        assert later is not None
        self._unpark()
        self._end_if_single()
        later.fail(problem)

    # FetchReader ------------------------------------------------------------------------------

    def _all(self) -> list[CachedPartition]:
        session = self.session
        return list(session.wanted.values()) if self._full else session.in_turn()

    def _taken_dirty(self) -> list[CachedPartition]:
        """Those that have changed since they were looked at, to be looked at now."""
        dirty, self._dirty = self._dirty, {}
        return [wanted for wanted in dirty if not wanted.gone]

    def _try(self, least: int) -> Answer | None:
        """The answer if there are enough bytes; else the fetch waits on its partitions."""
        found: list[Look] = []
        try:
            size, urgent = self._look_at(self._all(), found, 0)
        except BaseException:
            _let_go(found)
            raise
        if size < least and not urgent and not self._none_is_known():
            self._sizes = {}
            self._size = 0
            self._wait(found)
            return None
        answer: Answer = []
        self._add_to(answer, found)
        if self.session.id == NO_SESSION:
            self.session.end()
        return answer

    def _look_at(
        self, partitions: Iterable[CachedPartition], found: list[Look], size: int
    ) -> tuple[int, bool]:
        """Look at partitions, behind others with `size` bytes.

        Returns the bytes of all, and whether there is something else to report to the reader now.
        """
        look = self._looking.look
        most = self._max_bytes
        room = max(0, most - size) if size else most
        urgent = False
        for wanted in partitions:
            partition, data = look(wanted, room, size == 0)
            found.append((wanted, partition, data))
            if data.records is not None:
                size += data.size
                room = max(0, most - size)
            elif data.error_code or data.diverging or data.preferred_read_replica >= 0:
                if self._is_unknown(wanted, data):
                    self._unknown.add(wanted)
                else:
                    urgent = True
        return size, urgent

    def _is_unknown(self, wanted: CachedPartition, data: PartitionData) -> bool:
        """True if the partition is not known, and was not when the request came."""
        if self._looking.follower is not None or data.error_code not in UNKNOWN:
            return False
        return self._timer is None or wanted in self._unknown

    def _none_is_known(self) -> bool:
        return len(self._unknown) >= len(self.session.wanted)

    def _wait(self, found: Iterable[Look]) -> None:
        """Wait on what was looked at in this turn of the loop."""
        ready = self.session.ready
        for wanted, partition, data in found:
            self._note_size(wanted, data)
            if partition is None:
                continue  # unknown: reported when the wait is over
            # A new high watermark or log start is reported when the wait is over.
            if self._looking.has_read_all(wanted, partition, data) and not wanted.is_news(data):
                ready.pop(wanted, None)
            wanted.wait_on(partition)

    def _note_size(self, wanted: CachedPartition, data: PartitionData) -> None:
        if data.records is not None:
            self._sizes[wanted] = data.size
            self._size += data.size
            unpin(data)

    def _add_changes(self, dirty: Sequence[CachedPartition]) -> bool:
        """Look at partitions that have changed; True if there is a reason to answer now."""
        for wanted in dirty:
            self._size -= self._sizes.pop(wanted, 0)
        found: list[Look] = []
        try:
            _, urgent = self._look_at(dirty, found, self._size)
        except BaseException:
            _let_go(found)
            raise
        self._wait(found)
        return urgent or self._size >= self._min_bytes or self._none_is_known()

    def _add_to(self, answer: Answer, found: Iterable[Look], *, settled: bool = False) -> None:
        """Add what was found; `settled`: it is waited on already."""
        session = self.session
        ready = session.ready
        kept = session.id != NO_SESSION
        previous = answer[-1][0] if answer else None
        consumer = self._looking.follower is None
        for wanted, partition, data in found:
            if partition is not None:
                records = data.records
                if consumer:
                    partition.metrics.fetches += 1
                    if isinstance(records, Slice):
                        offset = wanted.ask.fetch_offset
                        partition.metrics.bytes_out += records.size
                        partition.metrics.messages_out += (
                            partition.log.end_of(offset, records) - offset
                        )
                elif records is not None and self._looking.is_throttled(partition):
                    self._context.throttle.used(data.size)
                if kept and not settled and self._looking.has_read_all(wanted, partition, data):
                    ready.pop(wanted, None)
                    wanted.wait_on(partition)
            if kept and self._goes_behind(data):
                wanted.turn = session.next_turn()
            if wanted.must_tell(data) or self._full:
                if wanted.topic != previous:
                    previous = wanted.topic
                    answer.append((previous, []))
                answer[-1][1].append(data)

    def _goes_behind(self, data: PartitionData) -> bool:
        """True if other partitions of the session are to be looked at first next time.

        A session's first answer leaves them in the request's order, as in Kafka, but for those that
        are not known.
        """
        if self._full:
            return data.error_code in UNKNOWN
        return data.records is not None

    # FetchReader at many ----------------------------------------------------------------------

    def _start(self, least: int | None) -> None:
        """Look at all in turns, or (None) at those that have changed."""
        self._work = self._context.background.run(self._in_turns(least))

    async def _in_turns(self, least: int | None) -> None:
        answer: Answer | None = None
        try:
            async with self._context.decoding.long_fetches:
                turns = Turns()
                if least is None and await self._changes_are_enough(turns):
                    least = ANYTHING
                if least is not None:
                    answer = await self._tried(least, turns)
        except Exception as problem:  # noqa: BLE001 its client must not wait for ever
            self._work = None
            self._fail(problem)
            return
        self._work = None
        if answer is not None:
            self._complete(answer)
            return
        if self._timer is None:
            self._start_timer()
        if (self._dirty or self._time_over) and not self._poked:
            self._poked = True
            asyncio.get_running_loop().call_soon(self._look_again)

    async def _changes_are_enough(self, turns: Turns) -> bool:
        enough = False
        for piece in _pieces(self._taken_dirty()):
            enough = self._add_changes(piece) or enough
            await turns.give_way()
        return enough

    async def _tried(self, least: int, turns: Turns) -> Answer | None:
        """As `_try`."""
        self._dirty.clear()
        found: list[Look] = []
        size, urgent = 0, False
        try:
            for piece in _pieces(self._all()):
                seen = len(found)
                size, more = self._look_at(piece, found, size)
                urgent = urgent or more
                self._settle(found[seen:])
                await turns.give_way()
            if self._time_over:
                least = WHATEVER
            if size >= least or urgent or self._none_is_known():
                answer: Answer = []
                for looks in _pieces(found):
                    self._add_to(answer, looks, settled=True)
                    await turns.give_way()
                self._end_if_single()
                return answer
            self._sizes = {}
            self._size = 0
            while found:
                self._wait_settled(found[-PIECE:])
                del found[-PIECE:]
                await turns.give_way()
        except BaseException:
            _let_go(found)
            raise
        return None

    def _settle(self, found: Iterable[Look]) -> None:
        """Wait on what was looked at in this turn, whether it will be answered or not."""
        ready = self.session.ready
        for wanted, partition, data in found:
            if partition is not None:
                wanted.wait_on(partition)
                if self._looking.has_read_all(wanted, partition, data):
                    ready.pop(wanted, None)

    def _wait_settled(self, found: Iterable[Look]) -> None:
        """It is not answered now: what the reader does not know yet is for the end of the wait."""
        ready = self.session.ready
        for wanted, partition, data in found:
            self._note_size(wanted, data)
            if (
                partition is not None
                and not wanted.gone
                and wanted.is_news(data)
                and self._looking.has_read_all(wanted, partition, data)
            ):
                ready[wanted] = None


def _pieces(elements: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(elements), PIECE):
        yield elements[start : start + PIECE]


def _let_go(found: Iterable[Look]) -> None:
    for _, _, data in found:
        unpin(data)
