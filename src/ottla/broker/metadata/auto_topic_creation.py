"""Auto topic creation: topics are created because a client requested them.

Rules kept here:
1. Who asks waits until the topics are there, but not for long: a store that does not answer must
   not keep the client from the topics that are there, nor from what it sends behind its question.
2. What is being made already is not begun again: who asks for it waits for the same, and no longer
   than the first who asked. Where that one has waited without result, nobody else waits.
3. Why a topic could not be made is for the log. As from Kafka, the client only sees that it is not
   there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import structlog

from ottla.broker.metadata.topics import ConfiguredWriter, create_topics
from ottla.broker.scheduling.background import Background
from ottla.metadata.store import StoreError
from ottla.metadata.topics import NewTopic
from ottla.wire.errors import ErrorCode, KafkaError

log = structlog.get_logger()

LONGEST_WAIT_SECONDS = 1.0
"""Most are there after milliseconds."""


class _Making(NamedTuple):
    """A topic that is being made."""

    task: asyncio.Task[None]
    waited_for_until: float


class AutoTopicCreation:
    """The topics that are being made on this broker because a client requested them."""

    def __init__(
        self,
        metadata: ConfiguredWriter,
        background: Background,
        new_topic: Callable[[str], NewTopic],
    ) -> None:
        """`new_topic` says how a topic is created that a client only named."""
        self._metadata = metadata
        self._background = background
        self._new_topic = new_topic
        self._under_way: dict[str, _Making] = {}

    async def create(self, names: list[str]) -> None:
        """Make topics; returns when it is done, done with, or takes too long."""
        new = [name for name in names if name not in self._under_way]
        now = asyncio.get_running_loop().time()
        if new:
            making = _Making(self._background.run(self._make(new)), now + LONGEST_WAIT_SECONDS)
            self._under_way.update(dict.fromkeys(new, making))
        awaited = {self._under_way[name] for name in names}
        patience = max(making.waited_for_until for making in awaited) - now
        if patience > 0:
            await asyncio.wait([making.task for making in awaited], timeout=patience)

    def stop(self) -> None:
        """Stop creating topics: no request waits for them."""
        for making in self._under_way.values():
            making.task.cancel()

    async def _make(self, names: list[str]) -> None:
        try:
            new = [self._new_topic(name) for name in names]
            outcomes = await create_topics(self._metadata, new)
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
