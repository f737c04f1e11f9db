"""Finding out that others have taken this broker's place, while it cannot reach the store.

A leader whose session has ended without its knowing acknowledges nothing that it must not: nobody
copies from it any more. But producers with acks=all would wait as long as it is cut off,
and clients that ask it for metadata would be sent back to it.

Rules kept here:
1. The other brokers are asked, and only while the lease is over: they may reach the store.
2. One that does not count this broker among the living has it from the store that the session has
   ended. It ends as if the store itself had said so.
3. Who does not answer, or knows this broker as alive, proves nothing. Where nobody reaches the
   store, everything goes on as it was.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.broker.replication.link import LinkError
from ottla.metadata.image import NO_EPOCH
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node

VERSION: Final = 12
ANSWER_SECONDS: Final = 1.0
LOOKS_A_SESSION: Final = 6
"""How often it is looked within the time in which a silent broker is declared dead."""


class Replacement:
    """Watches over the life of one node, as far as the others can tell."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._watching: asyncio.Task[None] | None = None

    def watch(self, session_timeout: float) -> None:
        """Look now and then from now on."""
        if self._watching is None:
            work = self._watch(session_timeout / LOOKS_A_SESSION)
            self._watching = asyncio.get_running_loop().create_task(work)

    async def stop(self) -> None:
        """Look no more."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def _watch(self, every_seconds: float) -> None:
        node = self._node
        while True:
            await asyncio.sleep(every_seconds)
            life = node.broker_epoch
            if life == NO_EPOCH or node.holds_lease():
                continue
            others = [broker for broker in node.image.brokers if broker != node.id]
            answers = await asyncio.gather(*map(self._counts_as_alive, others))
            if False in answers and node.broker_epoch == life and not node.holds_lease():
                teller = others[answers.index(False)]
                reason = f"broker {teller} says that the session has expired"
                node.membership.session_ended(reason, is_cut_off=True)

    async def _counts_as_alive(self, other: int) -> bool | None:
        """What another broker thinks of this one; None where it does not say."""
        no_topics = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        try:
            told = await self._node.peers.ask(
                other, no_topics, MetadataResponse, VERSION, ANSWER_SECONDS
            )
        except LinkError:
            return None
        return any(broker.node_id == self._node.id for broker in told.brokers)
