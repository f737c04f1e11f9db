"""A simulated broker's session with the store: connected, cut off, ended and begun again.

Its own clock and the connection tell a broker nothing of the session but what the store has
answered: it learns that the session has ended only when it reaches the store again. That clock is
no other's: with each process it begins anywhere, and it runs slower or faster than the store's.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import Any

from ottla.metadata import documents
from ottla.metadata.documents import broker_key, encode
from ottla.metadata.image import NO_EPOCH
from ottla.metadata.store import Change, Create, Document, Op
from ottla.replication.lease import Lease

from .store import SESSION_TIMEOUT, SimulatedStore, difference
from .world import Connection, Endpoint, World

CLOCK_SPEEDS = (0.75, 1.25)
"""A lease must hold with these: its margin is a third of the session's timeout."""
FARTHEST_CLOCK = 1_000_000.0


class StoreSession(Endpoint, ABC):
    """A broker as the store sees it."""

    lease_kind: type[Lease] = Lease

    def __init__(self, world: World, number: int, store: SimulatedStore) -> None:
        super().__init__(world, f"broker {number}")
        self.number = number
        self.store = store
        self.storage = documents.Storage(f"disk 0 of {number}")
        self.forget()

    def forget(self) -> None:
        """Begin with nothing: what a new process knows."""
        self.known: dict[str, tuple[int, int]] = {}
        self.epoch = NO_EPOCH
        self.session = 0
        self.ready = False
        self.registering = False
        self.lease = self.lease_kind()
        self.to_store: Connection | None = None
        self.unanswered: list[Any] = []
        self.pinged = 0
        chance = Random(f"clock of {self.number} in life {self.life} of {self.world.seed}")
        self._clock_began = chance.uniform(-FARTHEST_CLOCK, FARTHEST_CLOCK)
        self._clock_speed = chance.uniform(*CLOCK_SPEEDS)

    def now(self) -> float:
        """What this process takes for the time that has passed."""
        return self._clock_began + self._clock_speed * self.world.now

    def lives(self, epoch: int) -> bool:
        """Whether this process runs, and was registered with that epoch."""
        return self.running and self.epoch == epoch

    @abstractmethod
    def take(self, changes: list[Change]) -> None:
        """Take in what has changed in the store."""

    @abstractmethod
    def session_changed(self) -> None:
        """We are registered, with a new epoch, or no longer are."""

    def _connect(self) -> Connection:
        self.to_store = connection = Connection(self.world, self, self.store)
        self.timer(SESSION_TIMEOUT // 2, self._check_connection, connection, self.pinged)
        return connection

    def open_session(self) -> None:
        """Connect and begin a session."""
        self.session = 0
        self.lease.ended()
        connection = self._connect()
        sent = self.now()

        def opened(number: int | None, snapshot: list[Document]) -> None:
            assert number is not None
            self.session = number
            self._answered(connection, sent)
            self.timer(0, self._ping, connection)
            self.take(difference(self.known, snapshot))
            self._register()

        connection.send(
            self.store, self.store.open, connection, self, self.name, self._on(connection, opened)
        )

    def _reconnect(self) -> None:
        connection = self._connect()
        sent = self.now()

        def resumed(number: int | None, snapshot: list[Document]) -> None:
            if number is None:
                self.world.say(f"{self.name} learns that its session has ended")
                self._leave_session()
                return
            self._answered(connection, sent)
            self.timer(0, self._ping, connection)
            self.take(difference(self.known, snapshot))
            if not self.ready:
                self._register()

        answer = self._on(connection, resumed)
        store = self.store
        connection.send(store, store.resume_session, connection, self, self.session, answer)

    def _on(self, connection: Connection, call: Any) -> Any:
        """Only what comes on the connection that is in use counts."""

        def answer(*args: Any) -> None:
            if connection is self.to_store:
                call(*args)

        return answer

    def _answered(self, connection: Connection, sent: float) -> None:
        self.pinged += 1
        self.lease.answered(sent, SESSION_TIMEOUT)
        self.timer(SESSION_TIMEOUT // 2, self._check_connection, connection, self.pinged)

    def _ping(self, connection: Connection) -> None:
        if connection is not self.to_store:
            return
        self.timer(SESSION_TIMEOUT // 4, self._ping, connection)
        sent = self.now()
        answer = self._on(connection, lambda: self._answered(connection, sent))
        connection.send(self.store, self.store.ping, connection, self, self.session, answer)

    def _check_connection(self, connection: Connection, pinged: int) -> None:
        if connection is not self.to_store or self.pinged != pinged:
            return
        self.world.say(f"{self.name} has lost its connection to the store")
        self._drop_unanswered()
        if self.session:
            self._reconnect()
        else:
            self.open_session()

    def _drop_unanswered(self) -> None:
        unanswered, self.unanswered = self.unanswered, []
        self.to_store = None
        for answer in unanswered:
            answer("unknown")

    def _leave_session(self) -> None:
        """The session has ended: we lead nothing until we are registered and elected again."""
        self.epoch = NO_EPOCH
        self.ready = False
        self.registering = False
        self._drop_unanswered()
        self.session_changed()
        self.open_session()

    def commit(self, ops: Sequence[Op], then: Any, registers: str | None = None) -> None:
        """Commit; `then` gets True, False (a conflict), None (no session) or "unknown"."""
        connection = self.to_store
        if connection is None:
            then("unknown")
            return
        self.unanswered.append(then)

        def answered(outcome: bool | None) -> None:
            if then in self.unanswered:
                self.unanswered.remove(then)
                then(outcome)

        answer = self._on(connection, answered)
        store = self.store
        connection.send(store, store.commit, connection, self, self.session, ops, answer, registers)

    def _register(self) -> None:
        if self.registering:
            return
        self.registering = True
        key = broker_key(self.number)
        value = encode(documents.BrokerRegistration(self.number, [], storage=self.storage))

        def registered(outcome: Any) -> None:
            self.registering = False
            if outcome is True:
                self.epoch = self.known[key][1]
                self.ready = True
                self.world.say(f"{self.name} is registered with epoch {self.epoch}")
                self.session_changed()
            elif outcome is None:
                self._leave_session()
            elif outcome is False:
                mine = self.known.get(key)
                owned = self.store.sessions[self.session - 1].registered
                if mine is not None and key in owned:
                    registered(True)  # an attempt whose outcome was unknown had succeeded
                else:
                    self.timer(50, self._register)

        self.commit([Create(key, value)], registered, registers=key)

    def store_changed(self, connection: Connection, changes: list[Change]) -> None:
        """The store announces a commit. On a former connection that is older than what we know."""
        if connection is self.to_store:
            self.take(changes)
