"""Topics that are made because a client asked about them.

Rules kept here:
1. Who asks waits until the topics are there, but not for long: a store that does not answer must
   not keep the client from the topics that are there, nor from what it sends behind its question.
2. What is being made already is not begun again: who asks for it waits for the same, and no longer
   than the first who asked. Where that one has waited in vain, nobody else waits.
3. Why a topic could not be made is for the log. As from Kafka, the client only sees that it is not
   there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import structlog

from ottla.broker.metadata.topics import create_topics
from ottla.metadata.store import StoreError
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = structlog.get_logger()

LONGEST_WAIT_SECONDS = 1.0
"""Most are there after milliseconds."""


class _Making(NamedTuple):
    """A topic that is being made."""

    task: asyncio.Task[None]
    waited_for_until: float


class WishedTopics:
    """The topics that are being made on this broker because a client requested them."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._under_way: dict[str, _Making] = {}

    async def make(self, names: list[str]) -> None:
        """Make topics; returns when it is done, done with, or takes too long."""
        new = [name for name in names if name not in self._under_way]
        now = asyncio.get_running_loop().time()
        if new:
            making = _Making(self._node.background.run(self._make(new)), now + LONGEST_WAIT_SECONDS)
            self._under_way.update(dict.fromkeys(new, making))
        awaited = {self._under_way[name] for name in names}
        patience = max(making.waited_for_until for making in awaited) - now
        if patience > 0:
            await asyncio.wait([making.task for making in awaited], timeout=patience)

    def stop(self) -> None:
        """Make nothing any more: nobody waits for it."""
        for making in self._under_way.values():
            making.task.cancel()

    async def _make(self, names: list[str]) -> None:
        node = self._node
        try:
            outcomes = await create_topics(node, [node.new_topic(name) for name in names])
            for name, outcome in zip(names, outcomes, strict=True):
                if (
                    isinstance(outcome, KafkaError)
                    and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS  # created concurrently
                ):
                    log.warning(
                        "auto topic creation failed",
                        topic=name,
                        error=outcome.code.name,
                        reason=outcome.message,
                    )
        except (KafkaError, StoreError, OSError) as problem:
            log.error("auto topic creation failed", topics=names, reason=str(problem))
        finally:
            for name in names:
                del self._under_way[name]
