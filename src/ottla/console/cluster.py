"""Clients of one identity, shared by the threads that handle requests.

Rules kept here:
1. A client belongs to one thread at a time; after a failure of the network it is closed.
2. Nobody waits long for a broker that is gone: operations are retried for `PATIENCE_SECONDS`.
3. The list of all topics is remembered for a moment, so that searching and paging in thousands of
   topics costs one request.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Final

from ottla.client import Admin, Client, ClientSettings, ConnectionFailed, NoBroker
from ottla.client.admin import TopicInfo
from ottla.client.security import ClientSecurity

PATIENCE_SECONDS: Final = 3.0
CONNECT_SECONDS: Final = 2.0
REQUEST_SECONDS: Final = 15.0
IDLE_CLIENTS: Final = 8
TOPICS_KEPT_SECONDS: Final = 3.0


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
        self._topics: tuple[float, list[TopicInfo]] | None = None

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

    def topics(self) -> list[TopicInfo]:
        """All topics by name, as they were a moment ago."""
        with self._topics_lock:
            if self._topics is None or self._now() - self._topics[0] > TOPICS_KEPT_SECONDS:
                with self.client() as client:
                    found = Admin(client).list_topics()
                self._topics = self._now(), found
            return self._topics[1]

    def close(self) -> None:
        """Close what is idle now, and what is given back later."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()
