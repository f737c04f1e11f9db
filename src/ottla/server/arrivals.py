"""Clients that have not authenticated yet: how many there may be, and for how long.

Rules kept here:
1. A client must be authenticated within `ottla.handshake.timeout.ms` from when it was accepted,
   whatever it sends meanwhile.
2. There are at most `MOST_ARRIVALS` such clients. One more, and the oldest of the address that has
   the most is closed: a flood from one address does not keep others out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from ottla.server.connection import Connection

log = structlog.get_logger()

MOST_ARRIVALS: Final = 1000
LOOK_SECONDS: Final = 0.5
TELL_SECONDS: Final = 5.0
"""A flood does not fill the log: between two lines of it there is as much time."""


class Arrivals:
    """The connections whose clients are not authenticated, oldest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._deadlines: dict[Connection, float] = {}
        self._by_host: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = 0
        """For there being too many, since that was last logged."""
        self._told_at = -TELL_SECONDS

    def __len__(self) -> int:
        return len(self._deadlines)

    def add(self, connection: Connection, seconds: float) -> None:
        """A client has come."""
        host = connection.client_host
        self._deadlines[connection] = self._loop.time() + seconds
        self._by_host[host] = self._by_host.get(host, 0) + 1
        if len(self._deadlines) > MOST_ARRIVALS:
            self._close_one()
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def remove(self, connection: Connection) -> None:
        """It has authenticated, or gone."""
        if self._deadlines.pop(connection, None) is None:
            return
        host = connection.client_host
        left = self._by_host[host] - 1
        if left:
            self._by_host[host] = left
        else:
            del self._by_host[host]

    def stop(self) -> None:
        """Stop looking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_one(self) -> None:
        busiest = max(self._by_host, key=self._by_host.__getitem__)
        oldest = next(each for each in self._deadlines if each.client_host == busiest)
        self._closed += 1
        now = self._loop.time()
        if now - self._told_at >= TELL_SECONDS:
            log.warning(
                "too many unauthenticated connections; closing the oldest",
                client=busiest,
                connections=len(self._deadlines),
                closed=self._closed,
            )
            self._closed, self._told_at = 0, now
        oldest.close()

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        late = []
        for connection, deadline in self._deadlines.items():
            if deadline > now:
                break
            late.append(connection)
        for connection in late:
            log.info(
                "connection closed",
                client=connection.client_host,
                reason="client did not authenticate in time",
            )
            connection.close()
        if self._deadlines:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
