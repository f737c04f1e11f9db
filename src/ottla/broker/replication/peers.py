"""Questions to other brokers, over connections that are kept.

Rules kept here:
1. One question at a time is under way on a connection. A question waits for no other one, up to
   `LINKS` of a kind to a broker: a marker is answered when it is committed, which may never be, and
   must not keep the others waiting.
2. A connection belongs to one broker epoch of the other broker. When that has ended it is closed,
   and who waits for an answer learns it at once.
3. A question that fails is not asked again here: the caller knows whether that is safe.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, TypeVar

from ottla.broker.context.dynamic_config import DynamicConfig
from ottla.broker.replication.link import Link, LinkError
from ottla.broker.replication.link_security import LinkSecurity
from ottla.metadata.image import Image
from ottla.wire.message import Message

M = TypeVar("M", bound=Message)

LINKS: Final = 8


class _Line(NamedTuple):
    """A connection, and the epoch of the broker at its other end."""

    link: Link
    broker_epoch: int


class _Peer:
    """The connections to a broker for one kind of question."""

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(LINKS)
        self.idle: list[_Line] = []
        self.busy: set[_Line] = set()


class Peers:
    """The other brokers, as this broker asks them."""

    def __init__(
        self, config: DynamicConfig, image: Image, security: LinkSecurity | None = None
    ) -> None:
        self._config = config
        self.security = security or LinkSecurity()
        """How this broker logs in at the others."""
        self._image = image
        self._peers: dict[tuple[int, int], _Peer] = {}

    async def ask(
        self,
        broker: int,
        request: Message,
        answer: type[M],
        version: int,
        seconds: float | None = None,
    ) -> M:
        """Ask a broker, and wait `request.timeout.ms` or this many seconds; raises LinkError."""
        peer = self._peers.setdefault((broker, request.API_KEY), _Peer())
        if seconds is None:
            seconds = self._config.current.request_timeout_ms / 1000
        async with peer.turns:
            line = await self._line(broker, peer, seconds)
            peer.busy.add(line)
            try:
                found = await line.link.ask(request, answer, version, seconds)
            finally:
                peer.busy.discard(line)
            peer.idle.append(line)
            return found

    async def _line(self, broker: int, peer: _Peer, seconds: float) -> _Line:
        registered = self._image.brokers.get(broker)
        where = (
            None
            if registered is None
            else registered.endpoint(self._config.current.inter_broker.name)
        )
        if registered is None or where is None:
            raise LinkError(f"broker {broker} is not online")
        while peer.idle:
            line = peer.idle.pop()
            if line.broker_epoch == registered.epoch and line.link.is_open:
                return line
            line.link.close()
        return _Line(await Link.open(where, seconds, self.security), registered.epoch)

    def brokers_changed(self) -> None:
        """Brokers have come, gone or moved: wait for no answer of a broker epoch that is over."""
        brokers = self._image.brokers
        for (broker, _), peer in self._peers.items():
            registered = brokers.get(broker)
            for line in (*peer.idle, *peer.busy):
                if registered is None or registered.epoch != line.broker_epoch:
                    line.link.close()

    def close(self) -> None:
        """Let go of the connections."""
        for peer in self._peers.values():
            for line in (*peer.idle, *peer.busy):
                line.link.close()
            peer.idle.clear()
