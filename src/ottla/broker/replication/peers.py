"""Questions to other brokers: one kept connection to each, one question at a time on it.

Rules kept here:
1. A connection belongs to one life of the other broker: a new life gets a new one.
2. A question that fails is not asked again here: whoever asked knows whether that is safe.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.replication.link import Link, LinkError
from ottla.wire.message import Message

if TYPE_CHECKING:
    from ottla.broker.node import Node

M = TypeVar("M", bound=Message)


class _Peer:
    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.link: Link | None = None
        self.life = -1


class Peers:
    """The other brokers, as one node asks them."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._peers: dict[int, _Peer] = {}

    async def ask(self, broker: int, request: Message, answer: type[M], version: int) -> M:
        """Ask a broker; raises LinkError."""
        peer = self._peers.setdefault(broker, _Peer())
        seconds = self._node.config.request_timeout_ms / 1000
        async with peer.turn:
            link = await self._link(broker, peer, seconds)
            try:
                return await link.ask(request, answer, version, seconds)
            except BaseException:
                peer.link = None
                raise

    async def _link(self, broker: int, peer: _Peer, seconds: float) -> Link:
        life = self._node.image.brokers.get(broker)
        where = None if life is None else life.endpoint(self._node.config.inter_broker.name)
        if life is None or where is None:
            raise LinkError(f"broker {broker} is not there")
        if peer.link is not None and peer.life == life.epoch:
            return peer.link
        if peer.link is not None:
            peer.link.close()
        peer.link = None
        peer.link = await Link.open(where, seconds)
        peer.life = life.epoch
        return peer.link

    def close(self) -> None:
        """Let go of the connections."""
        for peer in self._peers.values():
            if peer.link is not None:
                peer.link.close()
                peer.link = None
