"""The metadata store's contract: small versioned documents, changed together or not at all.

Promises, kept by every store and held by one contract test suite:

1. A document is a key (a path such as `topics/orders`), a value and a version. The version is 0
   when the document is created and grows by 1 with each change; a document that is deleted and made
   again begins at 0 again, with a higher epoch. An epoch numbers the document's creation: what is
   created by a later commit has a higher one.
2. `commit` applies all of its operations, in order, or none. When one of them does not match what
   is stored it raises Conflict with that key, and nothing has changed. A topic's document with
   those of 10,000 partitions is one commit in every store; one that is too large for a store is
   refused with a StoreError, and nothing has changed.
3. When `commit` returns, its changes survive the death of the process, and of the machine as far as
   the disk keeps what it acknowledged. When it raises UnknownOutcome they may or may not be there:
   read again. After any other StoreError nothing has changed.
4. `watch` answers with everything that is stored, and from then on the listener is called with
   every change, this store's own and others', in the order of commits, each once; the changes of
   one commit are never split over two calls. The first call comes after `watch` has returned; from
   then on own changes are announced before their `commit` returns. A store that was disconnected
   for long may skip values that were overwritten meanwhile, but never a document's last state.
   When `catch_up` returns, everything that was committed before it was called is announced.
5. A registered document vanishes when its session ends: when the store is closed, or when the
   session is declared dead. A store whose session has ended cannot write: SessionEnded; reads may
   fail the same way. Its listener is no longer called; the `on_session_end` callback is called
   once, unless the store was closed by `close`. To continue, open another store.
6. A watcher sees one history. Where the stored documents do not continue what it has seen, because
   an older copy was restored, or they are another cluster's, or gone, the session ends instead.
   `position` says how far a store has followed the history, also after its end; `check_history`
   checks that the next store continues from there. Both look at the last commits, which every store
   keeps; a position older than those is accepted.
7. `session_facts` is what a lease is computed from: within two thirds of `timeout` after `answered`
   the session has not been declared dead.

Everything runs on one event loop: coroutines are awaited there and the listener is called there.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple


class StoreError(Exception):
    """The store cannot do what was asked. The text is one line for people."""


class Conflict(StoreError):  # noqa: N818 -- it names what happened
    """A document was not as the commit expected; nothing has changed."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} was changed concurrently")
        self.key = key


class UnknownOutcome(StoreError):  # noqa: N818 -- it names what happened
    """The commit may have happened or not; only reading again tells."""


class SessionEnded(StoreError):  # noqa: N818 -- it names what happened
    """The session was declared dead, or the store is closed; its registrations are gone."""


class HistoryLost(StoreError):  # noqa: N818 -- it names what happened
    """What is stored does not continue what was seen before."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where} holds different metadata from what this broker had: an older copy, "
            "another cluster's or none; restore the newer metadata, or restart the broker to "
            "continue with this"
        )


class StorePosition(NamedTuple):
    """A moment in a store's history: how many changes there were, and which was the last one."""

    number: int
    token: str


class Document(NamedTuple):
    """One stored document."""

    key: str
    value: bytes
    version: int
    epoch: int


class Change(NamedTuple):
    """A document's new state; a value of None means that it was deleted."""

    key: str
    value: bytes | None
    version: int
    epoch: int


class Put(NamedTuple):
    """Create the document or replace its value, whatever is there."""

    key: str
    value: bytes


class Create(NamedTuple):
    """Create the document, which must not exist."""

    key: str
    value: bytes


class Update(NamedTuple):
    """Replace the value of a document that must have this version."""

    key: str
    value: bytes
    version: int


class Delete(NamedTuple):
    """Remove the document, which must exist and, if a version is given, have it."""

    key: str
    version: int | None = None


class Check(NamedTuple):
    """Change nothing; the document must have this version, or with None must not exist."""

    key: str
    version: int | None


Op = Put | Create | Update | Delete | Check
Listener = Callable[[list[Change]], None]
SessionEndCallback = Callable[[str], None]


class Registration(NamedTuple):
    """A document that exists as long as the session; its epoch identifies the registration."""

    key: str
    epoch: int


class SessionFacts(NamedTuple):
    """How sure a store is that its session is alive.

    `timeout` is what was negotiated, in seconds; infinite where a session ends only after its
    process is known to be gone. `answered` is when the last answered heartbeat was sent, on
    CLOCK_BOOTTIME.
    """

    timeout: float
    answered: float


class Store(ABC):
    """Reads, atomic changes, registrations and a watch; the module's text has the promises."""

    @abstractmethod
    async def read(self, key: str) -> Document | None:
        """The document, or None when there is none."""

    @abstractmethod
    async def scan(self, prefix: str) -> list[Document]:
        """All documents whose keys begin so, in the order of keys, as of one moment."""

    @abstractmethod
    async def commit(self, ops: Sequence[Op]) -> list[int]:
        """Apply all operations or none; the version that each one left (Delete, Check: found)."""

    @abstractmethod
    async def register(self, key: str, value: bytes) -> Registration:
        """Create a document that vanishes with this store's session; Conflict if it exists."""

    @abstractmethod
    async def watch(self, listener: Listener) -> list[Document]:
        """What is stored now; the listener gets every later change. Once for each store."""

    @abstractmethod
    async def catch_up(self) -> None:
        """Return when the listener has all that was committed before this was called."""

    @abstractmethod
    def position(self) -> StorePosition:
        """How far the history was followed; also where the session has ended."""

    @abstractmethod
    async def check_history(self, known: StorePosition) -> None:
        """Raise HistoryLost if what is stored does not continue from there."""

    @abstractmethod
    def session_facts(self) -> SessionFacts:
        """What is known about whether the session is alive."""

    @abstractmethod
    def on_session_end(self, callback: SessionEndCallback) -> None:
        """Set a callback for when the session is declared dead; it gets the reason in one line."""

    @abstractmethod
    async def close(self) -> None:
        """End the session: registered documents vanish, the listener is no longer called."""
