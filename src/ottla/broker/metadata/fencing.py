"""Detecting that this broker was replaced, while it cannot reach the store.

A leader whose session has ended without its knowing acknowledges nothing that it must not: nobody
copies from it. But producers with acks=all would wait as long as it is cut off,
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
from typing import Final, Protocol

from ottla.broker.context.broker_state import BrokerState
from ottla.broker.replication.link import LinkError
from ottla.broker.replication.peers import Peers
from ottla.broker.scheduling.supervised import SupervisedTask
from ottla.metadata.image import NO_EPOCH, Image
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

VERSION: Final = 12
ANSWER_SECONDS: Final = 1.0
LOOKS_A_SESSION: Final = 6
"""How often it is looked within the time in which a silent broker is declared dead."""


class SessionEndListener(Protocol):
    """Is called when the session has ended."""

    def __call__(self, reason: str, *, is_cut_off: bool) -> None:
        """`is_cut_off`: the store cannot be reached."""


class FencingProbe:
    """Checks whether other brokers count this one as alive, as far as the others can tell."""

    def __init__(
        self, broker: BrokerState, image: Image, peers: Peers, session_ended: SessionEndListener
    ) -> None:
        self._broker = broker
        self._image = image
        self._peers = peers
        self._session_ended = session_ended
        self._watching = SupervisedTask("fencing probe", self._watch)
        self._every_seconds = 0.0

    def watch(self, session_timeout: float) -> None:
        """Look now and then from now on."""
        self._every_seconds = session_timeout / LOOKS_A_SESSION
        self._watching.begin()

    async def stop(self) -> None:
        """Stop looking."""
        await self._watching.stop()

    async def _watch(self) -> None:
        broker = self._broker
        while True:
            await asyncio.sleep(self._every_seconds)
            epoch = broker.epoch
            if epoch == NO_EPOCH or broker.holds_lease():
                continue
            others = [other for other in self._image.brokers if other != broker.id]
            answers = await asyncio.gather(*map(self._counts_as_alive, others))
            if False in answers and broker.epoch == epoch and not broker.holds_lease():
                teller = others[answers.index(False)]
                reason = f"broker {teller} says that the session has expired"
                self._session_ended(reason, is_cut_off=True)

    async def _counts_as_alive(self, other: int) -> bool | None:
        """What another broker thinks of this one; None where it does not say."""
        no_topics = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        try:
            metadata = await self._peers.ask(
                other, no_topics, MetadataResponse, VERSION, ANSWER_SECONDS
            )
        except LinkError:
            return None
        return any(broker.node_id == self._broker.id for broker in metadata.brokers)
