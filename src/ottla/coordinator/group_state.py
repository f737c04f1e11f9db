"""What all handlers of a group shard share: its groups, its offsets, and the world outside."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.group_config import ConfigOf, GroupConfig
from ottla.coordinator.offsets.store import OffsetStore
from ottla.coordinator.topics import TopicMatcher, TopicView
from ottla.wire.errors import ErrorCode, KafkaError

Group = ClassicGroup | ConsumerGroup


@dataclass(slots=True)
class GroupState:
    """One shard's state."""

    config: GroupConfig
    topics: TopicView
    matching_topics: TopicMatcher
    new_id: Callable[[], str]
    """Gives a text that was never given before (a random UUID)."""
    config_of: ConfigOf
    groups: dict[str, Group] = field(default_factory=dict)
    offsets: OffsetStore = field(default_factory=OffsetStore)
    tokens: Iterator[int] = field(default_factory=count)

    def group(self, group_id: str) -> Group:
        """The group of an id; GROUP_ID_NOT_FOUND where there is none."""
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """The consumer group of an id; GROUP_ID_NOT_FOUND where there is none."""
        group = self.group(group_id)
        if not isinstance(group, ConsumerGroup):
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group."
            )
        return group
