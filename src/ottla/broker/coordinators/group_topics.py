"""The image's topics as coordinators see them."""

from __future__ import annotations

import uuid
from collections.abc import Set
from typing import TYPE_CHECKING

from ottla.broker.patterns import full_matcher
from ottla.coordinator.topics import TopicSummary
from ottla.metadata.image import TopicImage

if TYPE_CHECKING:
    from ottla.broker.coordinators.context import CoordinatorContext


class Topics:
    """The image's topics as groups see them."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self.version = 0

    def by_name(self, name: str) -> TopicSummary | None:
        """The topic of a name."""
        return _info(self._context.image.topics.get(name))

    def by_id(self, topic_id: uuid.UUID) -> TopicSummary | None:
        """The topic of an id."""
        return _info(self._context.image.topics_by_id.get(topic_id))

    def matching(self, regex: str) -> Set[str]:
        """The topics whose whole name a pattern matches; raises ValueError for a wrong one."""
        matches = full_matcher(regex)
        return {name for name in self._context.image.topics if matches(name)}


def _info(topic: TopicImage | None) -> TopicSummary | None:
    return None if topic is None else TopicSummary(topic.name, topic.id, len(topic.assignment))
