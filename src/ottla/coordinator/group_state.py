"""What all handlers of a group shard share: its groups, its offsets, and the world outside."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from ottla.coordinator.group import Group
from ottla.coordinator.group_config import ConfigOf, GroupConfig
from ottla.coordinator.offsets.store import OffsetStore
from ottla.coordinator.topics import TopicMatcher, TopicView
from ottla.wire.errors import ErrorCode, KafkaError

G = TypeVar("G", bound=Group)


def check_group_id(group_id: str) -> None:
    """Refuse a nameless group. Only commits and fetches of offsets may leave the name out."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "GroupId can't be empty.")


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
    is_loading: bool = True
    """True until all records of the partition are replayed."""

    def group(self, group_id: str) -> Group:
        """The group of an id; GROUP_ID_NOT_FOUND where there is none."""
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def of_kind(self, group_id: str, kind: type[G]) -> G:
        """The group of an id; GROUP_ID_NOT_FOUND where there is none, or one of another kind."""
        group = self.group(group_id)
        if not isinstance(group, kind):
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Group {group_id} is not a {kind.TYPE.value} group.",
            )
        return group

    def find(self, group_id: str, kind: type[G]) -> G | None:
        """The group of an id, None where there is none, or one of another kind."""
        group = self.groups.get(group_id)
        return group if isinstance(group, kind) else None
