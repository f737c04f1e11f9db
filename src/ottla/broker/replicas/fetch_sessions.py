"""Fetch sessions (KIP-227): what a reader wants is remembered, so it sends only what changed.

Every fetch runs on a `FetchSession`; one that wants no session gets one that nobody keeps.

Rules kept here:
1. A session knows which of its partitions are `ready`: those with something to look at. A
   partition that is read to the end leaves the set and comes back when it wakes, so that a fetch
   costs what has changed and not what is subscribed. Where that end is depends on the isolation
   level: a request with another one looks at all partitions again.
2. An incremental reply names a partition only if it has records, an error, or another high
   watermark or log start than was last sent.
3. Partitions take turns in Kafka's order: that of the requests that named them, and one that gave
   records goes behind the others.
4. The cache holds a fixed number of sessions. A newcomer takes the place of one unused for two
   minutes, or of a smaller one that is two minutes old; else it gets no session (id 0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from ottla.broker.replicas.partition import Partition
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch import (
    FINAL_EPOCH,
    FIRST_WITH_TOPIC_IDS,
    INITIAL_EPOCH,
    FetchPartition,
    FetchRequest,
    PartitionData,
)
from ottla.wire.produce import TopicKey

NO_SESSION: Final = 0
LAST_EPOCH: Final = 2**31 - 1
EVICTION_MS: Final = 120_000


class Waiting(Protocol):
    """A fetch that is parked on a session."""

    def poke(self, wanted: CachedPartition) -> None:
        """One of its partitions became ready."""


class CachedPartition:
    """One partition of a session: what is wanted of it, and what was last sent."""

    __slots__ = (
        "ask",
        "gone",
        "on",
        "session",
        "told_high_watermark",
        "told_start_offset",
        "topic",
        "turn",
        "warm",
        "warming",
    )

    def __init__(self, session: FetchSession, topic: TopicKey, ask: FetchPartition) -> None:
        self.session = session
        self.topic = topic
        self.ask = ask
        self.on: Partition | None = None
        """The partition on which this is registered as a reader, while it waits there."""
        self.gone = False
        """True once it is removed from the session: a fetch may still be at work on it."""
        self.told_high_watermark = -1
        self.told_start_offset = -1
        self.turn = session.next_turn()
        """Where this stands among the session's partitions: the lowest is looked at first."""
        self.warming = False
        """True while a thread reads what is wanted from the disk."""
        self.warm = ""
        """What it has read: where the next look finds that cold again, it waits for it."""

    def wake(self) -> None:
        """The partition has changed."""
        self.on = None
        session = self.session
        session.ready[self] = None
        if session.parked is not None:
            session.parked.poke(self)

    def has_news(self) -> None:
        """The partition is to be looked at when the fetch is answered, whatever for."""
        self.session.ready[self] = None

    def is_news(self, data: PartitionData) -> bool:
        """True if the reader does not know this high watermark or log start yet."""
        return (
            data.high_watermark != self.told_high_watermark
            or data.log_start_offset != self.told_start_offset
        )

    def wait_on(self, partition: Partition) -> None:
        """Wake at the next change of the partition."""
        if self.on is not partition and not self.gone:
            self.stop_waiting()
            self.on = partition
            partition.add_reader(self, self.session.privileged)

    def has_been_read(self, place: str) -> None:
        """What is wanted has come from the disk, or never will."""
        self.warming = False
        if self.session.wanted.get((self.topic, self.ask.partition)) is self:
            self.warm = place
            self.stop_waiting()
            self.wake()

    def leave(self) -> None:
        """It is removed from the session."""
        self.gone = True
        self.stop_waiting()

    def stop_waiting(self) -> None:
        """Stop waking."""
        if self.on is not None:
            self.on.remove_reader(self)
            self.on = None

    def must_tell(self, data: PartitionData) -> bool:
        """True if an incremental reply has to name this partition; remembers what it tells."""
        tell = data.records is not None or data.diverging is not None
        if data.high_watermark != self.told_high_watermark:
            self.told_high_watermark = data.high_watermark
            tell = True
        if data.log_start_offset != self.told_start_offset:
            self.told_start_offset = data.log_start_offset
            tell = True
        if data.preferred_read_replica >= 0:
            tell = True
        if data.error_code:
            self.told_high_watermark = -1
            tell = True
        return tell


class FetchSession:
    """What one reader wants, over many fetches or (with id 0) in one."""

    __slots__ = (
        "created",
        "epoch",
        "id",
        "isolation_level",
        "last_used",
        "owner",
        "parked",
        "privileged",
        "ready",
        "turns",
        "uses_topic_ids",
        "wanted",
    )

    def __init__(
        self, uses_topic_ids: bool, privileged: bool, now: int, owner: object = None
    ) -> None:
        self.id = NO_SESSION
        self.owner = owner
        self.epoch = INITIAL_EPOCH
        self.uses_topic_ids = uses_topic_ids
        self.privileged = privileged
        """Followers' sessions are kept in preference to consumers'."""
        self.created = now
        self.last_used = now
        self.isolation_level = 0
        self.wanted: dict[tuple[TopicKey, int], CachedPartition] = {}
        self.ready: dict[CachedPartition, None] = {}
        self.turns = 0
        self.parked: Waiting | None = None

    def next_turn(self) -> int:
        """The place behind all partitions of the session."""
        self.turns += 1
        return self.turns

    def in_turn(self) -> list[CachedPartition]:
        """The ready partitions, the one that waits longest for its turn first."""
        return sorted(self.ready, key=_turn) if len(self.ready) > 1 else list(self.ready)

    def isolate(self, level: int) -> None:
        """Read with this isolation level from now on."""
        if level != self.isolation_level:
            self.isolation_level = level
            for wanted in self.wanted.values():
                self.ready[wanted] = None

    def want(self, topics: Iterable[tuple[TopicKey, list[FetchPartition]]]) -> None:
        """Add partitions, or change what is wanted of them."""
        for topic, asks in topics:
            for ask in asks:
                key = (topic, ask.partition)
                wanted = self.wanted.get(key)
                if wanted is None:
                    wanted = self.wanted[key] = CachedPartition(self, topic, ask)
                else:
                    wanted.ask = ask
                self.ready[wanted] = None

    def forget(self, topics: Iterable[tuple[TopicKey, list[int]]]) -> None:
        """Remove these partitions."""
        for topic, indexes in topics:
            for index in indexes:
                wanted = self.wanted.pop((topic, index), None)
                if wanted is not None:
                    self.ready.pop(wanted, None)
                    wanted.leave()

    def end(self) -> None:
        """Nobody will use this session again: it lets go of everything, also of itself."""
        for wanted in self.wanted.values():
            wanted.leave()
        self.wanted.clear()
        self.ready.clear()
        self.id = NO_SESSION

    def next_epoch(self) -> None:
        """Epochs count the fetches of a session, and wrap to 1."""
        self.epoch = 1 if self.epoch == LAST_EPOCH else self.epoch + 1


class FetchSessions:
    """The cache of sessions."""

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        self.slots = slots
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}  # least recently used first
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Partitions cached in all sessions."""
        return sum(len(session.wanted) for session in self._sessions.values())

    def begin(
        self, request: FetchRequest, version: int, now: int, owner: object = None
    ) -> tuple[FetchSession, bool]:
        """The session a fetch runs on, and whether its reply must name every partition.

        A session belongs to who began it (`owner`): for others it is not there.
        Raises KafkaError where the session named is not there or not in this state.
        """
        session, full = self.open(request, version, now, owner)
        session.want(request.topics)
        if full:
            self.keep_if_asked(session, request, now)
            return session, True
        session.forget(request.forgotten)
        if session.wanted:
            return session, False
        session = self.replace_empty(session, request, now)
        session.want(request.topics)
        return session, True

    def open(
        self, request: FetchRequest, version: int, now: int, owner: object = None
    ) -> tuple[FetchSession, bool]:
        """The session as it was before the request, and whether that is a new one.

        Raises KafkaError as `begin`.
        """
        uses_topic_ids = version >= FIRST_WITH_TOPIC_IDS
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            found = self._sessions.get(request.session_id)
            if found is not None and found.owner == owner:
                self.remove(request.session_id)
            session = FetchSession(uses_topic_ids, request.replica_id >= 0, now, owner)
            session.isolate(request.isolation_level)
            return session, True
        found = self._sessions.get(request.session_id)
        if found is None or found.owner != owner:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if found.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if found.uses_topic_ids is not uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        found.isolate(request.isolation_level)
        found.next_epoch()
        found.last_used = now
        self._sessions[found.id] = self._sessions.pop(found.id)
        return found, False

    def keep_if_asked(self, session: FetchSession, request: FetchRequest, now: int) -> None:
        """Keep a new session that knows what is wanted, if there is room."""
        if request.session_epoch == INITIAL_EPOCH:
            self._keep(session, now)

    def replace_empty(self, session: FetchSession, request: FetchRequest, now: int) -> FetchSession:
        """As in Kafka, a session that is left without partitions ends, and what the request
        names, even if it forgets it too, is fetched without one.
        """
        self.remove(session.id)
        single = FetchSession(session.uses_topic_ids, request.replica_id >= 0, now, session.owner)
        single.isolate(request.isolation_level)
        return single

    def remove(self, session_id: int) -> None:
        """End a session, if it is there."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()

    def _keep(self, session: FetchSession, now: int) -> None:
        if not self._make_room(session, now):
            return
        while session.id == NO_SESSION or session.id in self._sessions:
            session.id = self._new_id()
        session.epoch = INITIAL_EPOCH + 1
        self._sessions[session.id] = session

    def _make_room(self, newcomer: FetchSession, now: int) -> bool:
        if len(self._sessions) < self.slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now - oldest.last_used <= EVICTION_MS:
            settled = [s for s in self._sessions.values() if now - s.created > EVICTION_MS]
            if not settled:
                return False
            oldest = min(settled, key=_rank)
            if _rank(oldest) >= _rank(newcomer):
                return False
        self.remove(oldest.id)
        self.evictions += 1
        return True


def _turn(wanted: CachedPartition) -> int:
    return wanted.turn


def _rank(session: FetchSession) -> tuple[bool, int]:
    return session.privileged, len(session.wanted)
