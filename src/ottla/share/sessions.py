"""Share sessions: which partitions a member fetches, kept by the broker between its requests.

Rules kept here (Kafka's SharePartitionManager and ShareSessionCache):
1. A session is known by group and member. Epoch 0 opens one, in place of an older one; -1 closes
   it; every other request must have the epoch that comes next. ShareFetch and ShareAcknowledge
   both move it on.
2. There are at most as many as the broker is configured for; one more is refused.
3. A session belongs to the connection that opened it, and ends with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from ottla.wire.errors import ErrorCode, KafkaError

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
LAST_EPOCH: Final = 2**31 - 1


class TopicIdPartition(NamedTuple):
    """A partition by its topic's id."""

    topic_id: UUID
    partition: int


class SessionKey(NamedTuple):
    """Whose session it is."""

    group: str
    member: str


class ShareSession:
    """What a member fetches."""

    __slots__ = ("connection", "epoch", "key", "partitions", "told")

    def __init__(
        self, key: SessionKey, connection: int, partitions: Iterable[TopicIdPartition]
    ) -> None:
        self.key = key
        self.connection = connection
        self.epoch = 1
        self.partitions: dict[TopicIdPartition, None] = dict.fromkeys(partitions)
        self.told: set[TopicIdPartition] = set()
        """Those that the member has had an answer for."""

    def update(
        self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]
    ) -> None:
        """Take what a request adds and forgets."""
        self.partitions.update(dict.fromkeys(added))
        for each in forgotten:
            self.partitions.pop(each, None)
            self.told.discard(each)

    def move_on(self, epoch: int) -> None:
        """Check a request's epoch and expect the next one; raises KafkaError."""
        if epoch != self.epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        self.epoch = 1 if epoch == LAST_EPOCH else epoch + 1


class ShareSessions:
    """The share sessions of a broker."""

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[int, set[SessionKey]] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """How many partitions all sessions have."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def find(self, key: SessionKey) -> ShareSession:
        """The session of a member; raises KafkaError."""
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def open(
        self,
        key: SessionKey,
        connection: int,
        partitions: Iterable[TopicIdPartition],
        most: int,
    ) -> ShareSession:
        """Open a session, in place of the member's older one; raises KafkaError."""
        self.remove(key)
        if len(self._sessions) >= most:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(key, connection, partitions)
        self._by_connection.setdefault(connection, set()).add(key)
        return session

    def remove(self, key: SessionKey) -> ShareSession | None:
        """End a session; returns it."""
        session = self._sessions.pop(key, None)
        if session is not None:
            keys = self._by_connection[session.connection]
            keys.discard(key)
            if not keys:
                del self._by_connection[session.connection]
        return session

    def connection_closed(self, connection: int) -> list[ShareSession]:
        """End the sessions of a connection; returns them."""
        ended = [
            session
            for key in sorted(self._by_connection.get(connection, ()))
            if (session := self.remove(key)) is not None
        ]
        self.evictions += len(ended)
        return ended

    def has_group(self, group: str) -> bool:
        """True if a member of the group has a session."""
        return any(key.group == group for key in self._sessions)
