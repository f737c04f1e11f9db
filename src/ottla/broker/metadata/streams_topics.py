"""Internal topics of streams groups: created beside the heartbeats that need them.

Rules kept here:
1. A heartbeat does not wait for its topics: a later one finds them.
2. What is being created is not begun again.
3. Why a topic could not be created is kept for a while: heartbeats report it to the application.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import structlog

from ottla.broker.context.clock import Clock
from ottla.broker.metadata.topics import ConfiguredWriter, create_topics
from ottla.broker.scheduling.background import Background
from ottla.metadata.store import StoreError
from ottla.metadata.topics import NewTopic
from ottla.wire.errors import ErrorCode, KafkaError

log = structlog.get_logger()

MOST_PROBLEMS: Final = 1000


class StreamsTopics:
    """The internal topics that are being created on this broker."""

    def __init__(self, metadata: ConfiguredWriter, background: Background, clock: Clock) -> None:
        self._metadata = metadata
        self._background = background
        self._clock = clock
        self._under_way: set[str] = set()
        self._problems: dict[str, tuple[str, int]] = {}
        """Why a topic could not be created, and until when heartbeats report it."""

    def create(self, topics: Sequence[NewTopic], remembered_ms: int) -> None:
        """Begin to create those that are not under way."""
        new = [topic for topic in topics if topic.name not in self._under_way]
        if new:
            self._under_way.update(topic.name for topic in new)
            self._background.run(self._create(new, remembered_ms))

    def problems(self, names: Iterable[str]) -> dict[str, str]:
        """Why topics could not be created, as far as that is known."""
        now = self._clock.elapsed_ms()
        found = {}
        for name in names:
            problem = self._problems.get(name)
            if problem is not None and now < problem[1]:
                found[name] = problem[0]
        return found

    async def _create(self, topics: Sequence[NewTopic], remembered_ms: int) -> None:
        names = [topic.name for topic in topics]
        failed: dict[str, str] = {}
        try:
            outcomes = await create_topics(self._metadata, topics)
            for name, outcome in zip(names, outcomes, strict=True):
                is_there = ErrorCode.TOPIC_ALREADY_EXISTS
                if isinstance(outcome, KafkaError) and outcome.code is not is_there:
                    failed[name] = outcome.message or outcome.code.name
        except (KafkaError, StoreError, OSError) as problem:
            failed = dict.fromkeys(names, str(problem))
        finally:
            self._under_way.difference_update(names)
        now = self._clock.elapsed_ms()
        for name in names:
            self._problems.pop(name, None)
        for name, reason in failed.items():
            log.warning("failed to create internal topic", topic=name, reason=reason)
            if len(self._problems) >= MOST_PROBLEMS:
                self._problems = {
                    name: problem for name, problem in self._problems.items() if now < problem[1]
                }
            if len(self._problems) < MOST_PROBLEMS:
                self._problems[name] = reason, now + remembered_ms
