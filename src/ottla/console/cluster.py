"""Clients of one identity, shared by the threads that handle requests.

Rules kept here:
1. A client belongs to one thread at a time; after a failure of the network it is closed.
2. Nobody waits long for a broker that is gone: operations are retried for `PATIENCE_SECONDS`.
3. The list of all topics is remembered for a moment, so that searching and paging in thousands of
   topics costs one request. Where that takes long, nobody waits for it: pages show the last list
   while a thread asks for the next one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from time import monotonic
from typing import Final, NamedTuple

from ottla.client import Admin, Client, ClientSettings, ConnectionFailed, KafkaError, NoBroker
from ottla.client.admin import TopicDescription
from ottla.client.security import ClientSecurity

PATIENCE_SECONDS: Final = 3.0
CONNECT_SECONDS: Final = 2.0
REQUEST_SECONDS: Final = 15.0
IDLE_CLIENTS: Final = 8
TOPICS_KEPT_SECONDS: Final = 3.0
SLOW_SECONDS: Final = 0.1
OLDEST_TOPICS_SECONDS: Final = 60.0
"""A list that is older is not shown."""


class _Topics(NamedTuple):
    """A list of topics: when it was asked for, and how long that took."""

    asked: float
    took: float
    topics: list[TopicDescription]


class Cluster:
    """What pages ask."""

    def __init__(
        self,
        bootstrap_servers: str,
        security: ClientSecurity | None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._settings = ClientSettings(
            bootstrap_servers=bootstrap_servers,
            client_id="ottla-console",
            connect_timeout=CONNECT_SECONDS,
            request_timeout=REQUEST_SECONDS,
            deadline=PATIENCE_SECONDS,
            security=security,
        )
        self._now = now
        self._lock = Lock()
        self._idle: list[Client] = []
        self._closed = False
        self._topics_lock = Lock()
        self._topics: _Topics | None = None
        self._refresh: Thread | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Where it is."""
        return self._settings.bootstrap_servers

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client for this thread alone, until the block ends."""
        with self._lock:
            client = self._idle.pop() if self._idle else None
        client = client or Client(self._settings)
        try:
            yield client
        except (ConnectionFailed, NoBroker):
            client.close()
            raise
        except BaseException:
            self._give_back(client)
            raise
        self._give_back(client)

    def _give_back(self, client: Client) -> None:
        with self._lock:
            if len(self._idle) < IDLE_CLIENTS and not self._closed:
                self._idle.append(client)
                return
        client.close()

    def topics(self) -> list[TopicDescription]:
        """All topics by name, as they were a moment ago."""
        with self._topics_lock:
            known = self._topics
            age = 0.0 if known is None else self._now() - known.asked
            if known is None or age > OLDEST_TOPICS_SECONDS:
                return self._ask().topics
            if age > TOPICS_KEPT_SECONDS:
                if known.took < SLOW_SECONDS:
                    return self._ask().topics
                if self._refresh is None or not self._refresh.is_alive():
                    self._refresh = Thread(target=self._ask_beside, daemon=True)
                    self._refresh.start()
            return known.topics

    def _ask(self) -> _Topics:
        began = self._now()
        with self.client() as client:
            topics = Admin(client).list_topics()
        self._topics = _Topics(self._now(), self._now() - began, topics)
        return self._topics

    def _ask_beside(self) -> None:
        try:
            self._ask()
        except KafkaError:
            self._topics = None  # the next request asks itself, and tells what is wrong

    def close(self) -> None:
        """Close what is idle now, and what is given back later."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()
