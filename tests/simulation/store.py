"""A simulated metadata store: the contract of `store.py` with sessions, over connections.

1. Commits are those of the contract's model: all or nothing, by versions.
2. A session that was silent for its timeout ends: what it registered vanishes, and its commits are
   refused from then on, also those still on their way.
3. Changes are announced to every connected session, in order, on the same connection as answers:
   so own changes come before their commit's answer. Who connects again gets everything.
4. When a connection breaks under a commit its outcome is unknown: it may even happen later.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ottla.metadata.store import Change, Conflict, Delete, Document, Op
from tests.metadata.model import Model

from .world import Connection, Endpoint, World

SESSION_TIMEOUT = 400


class Client(Protocol):
    """What a broker does when the store tells it something."""

    def store_changed(self, connection: Connection, changes: list[Change]) -> None:
        """Documents have changed."""


class Session:
    """A broker's session."""

    def __init__(self, number: int, owner: str) -> None:
        self.number = number
        self.owner = owner
        self.heard_at = 0
        self.live = True
        self.removed = False
        self.registered: list[str] = []
        self.connection: Connection | None = None
        self.client: Client


class SimulatedStore(Endpoint):
    """The documents, and the sessions that watch them."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "store")
        self.model = Model()
        self.sessions: list[Session] = []
        self.unreliable = True
        self.on_commit: Callable[[str, Sequence[Op]], None] = lambda writer, ops: None

    # Each of these is a message to the store; `answer` goes back on the same connection. --------

    def open(self, connection: Connection, client: Endpoint, owner: str, answer: Any) -> None:
        """Begin a session, and watch."""
        session = Session(len(self.sessions) + 1, owner)
        session.heard_at = self.world.now
        self.sessions.append(session)
        self.world.after(SESSION_TIMEOUT, self._expire, session)
        self._connect(session, connection, client, answer)

    def resume_session(
        self, connection: Connection, client: Endpoint, number: int, answer: Any
    ) -> None:
        """Continue with a session on another connection."""
        session = self.sessions[number - 1]
        if not session.live:
            connection.send(client, answer, None, [])
            return
        session.heard_at = self.world.now
        self._connect(session, connection, client, answer)

    def _connect(self, session: Session, connection: Connection, client: Any, answer: Any) -> None:
        if session.connection is not None:
            session.connection.broken = True  # a session has one connection: the newest
        session.connection = connection
        session.client = client
        connection.send(client, answer, session.number, self.model.snapshot())

    def ping(self, connection: Connection, client: Endpoint, number: int, answer: Any) -> None:
        """Show life."""
        session = self.sessions[number - 1]
        if session.live:
            session.heard_at = self.world.now
            connection.send(client, answer)

    def commit(
        self,
        connection: Connection,
        client: Endpoint,
        number: int,
        ops: Sequence[Op],
        answer: Any,
        registers: str | None = None,
    ) -> None:
        """Apply operations; the answer is True, or False for a conflict, or None: no session."""
        session = self.sessions[number - 1]
        if not session.live:
            connection.send(client, answer, None)
            return
        session.heard_at = self.world.now
        try:
            self._apply(session.owner, ops)
        except Conflict:
            connection.send(client, answer, False)
            return
        if registers is not None:
            session.registered.append(registers)
        if self.unreliable and self.world.chance.random() < 0.05:
            connection.broken = True  # done, but the reply is lost
        connection.send(client, answer, True)

    def close_session(self, number: int) -> None:
        """End a session at once."""
        self._end(self.sessions[number - 1])

    # ---------------------------------------------------------------------------------------------

    def admin(self, ops: Sequence[Op]) -> bool:
        """A commit of someone who is always connected; says whether it fitted."""
        try:
            self._apply("admin", ops)
        except Conflict:
            return False
        return True

    def end_sessions_of(self, owner: str) -> None:
        """A broker came back: its old session goes at once, as in the SQLite store."""
        for session in self.sessions:
            if session.owner == owner and session.live:
                self._end(session)

    def expire_now(self, owner: str) -> None:
        """Someone removes a broker's session by hand, before its time: no lease can foresee it."""
        for session in self.sessions:
            session.removed |= session.owner == owner and session.live
        self.end_sessions_of(owner)

    def may_lead(self, number: int) -> bool:
        """Whether nobody else can have been elected because this session seemed dead."""
        return number > 0 and (self.sessions[number - 1].live or self.sessions[number - 1].removed)

    def _expire(self, session: Session) -> None:
        if not session.live:
            return
        left = session.heard_at + SESSION_TIMEOUT - self.world.now
        if left > 0:
            self.world.after(left, self._expire, session)
        else:
            self._end(session)

    def _end(self, session: Session) -> None:
        session.live = False
        self.world.say(f"store: the session of {session.owner} ends")
        gone = [Delete(key) for key in session.registered if key in self.model.documents]
        if gone:
            self._apply("store", gone)

    def _apply(self, writer: str, ops: Sequence[Op]) -> None:
        changes = self.model.commit(ops)
        self.on_commit(writer, ops)
        if self.world.trace:
            for change in changes:
                text = "gone" if change.value is None else change.value.decode()
                self.world.say(f"store: {writer}: {change.key} v{change.version} {text}")
        for session in self.sessions:
            if session.live and session.connection is not None:
                client: Any = session.client
                session.connection.send(client, client.store_changed, session.connection, changes)


def difference(known: dict[str, tuple[int, int]], snapshot: list[Document]) -> list[Change]:
    """What has changed since the known versions and epochs."""
    changes = [
        Change(*document)
        for document in snapshot
        if known.get(document.key) != (document.version, document.epoch)
    ]
    there = {document.key for document in snapshot}
    gone = [Change(key, None, *known[key]) for key in known if key not in there]
    return gone + changes
