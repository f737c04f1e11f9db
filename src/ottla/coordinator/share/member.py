"""A member of a share group: what it asked for, and what it reads.

Rules kept here:
1. A member is a value: handlers make changed copies, only replay puts one into its group.
2. Partitions have no exclusive owner: a member moves to its target in one step.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from ottla.coordinator.share.schemas import (
    AssignedTopic,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
)

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STABLE = 0
"""The only state that a member of a share group has, by Kafka's number."""

Partitions = Mapping[UUID, frozenset[int]]
"""Partitions by topic."""


@dataclass(frozen=True, slots=True)
class ShareMember:
    """One member."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    """A member whose last answer was lost comes with this one."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topics: frozenset[str] = frozenset()
    assigned: Partitions = field(default_factory=dict)

    def moved(self, epoch: int, target: Partitions, topics: frozenset[UUID]) -> "ShareMember":
        """The member with its target of an epoch; `topics` are those it subscribes to now."""
        wanted = target if self.member_epoch != epoch else self.assigned
        assigned = {topic: numbers for topic, numbers in wanted.items() if topic in topics}
        if epoch == self.member_epoch:
            return self if assigned == self.assigned else replace(self, assigned=assigned)
        return replace(
            self,
            member_epoch=epoch,
            previous_member_epoch=self.member_epoch,
            assigned=assigned,
        )

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> "ShareMember":
        """The member, as it described itself in a record."""
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topics=frozenset(value.subscribed_topic_names),
        )

    def with_current(self, value: ShareGroupCurrentMemberAssignmentValue) -> "ShareMember":
        """The member, with what it reads by a record."""
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            assigned=read_topics(value.assigned_partitions),
        )

    def to_metadata(self) -> ShareGroupMemberMetadataValue:
        """The record's value of what the member said of itself."""
        return ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.subscribed_topics),
        )

    def to_current(self) -> ShareGroupCurrentMemberAssignmentValue:
        """The record's value of what the member reads."""
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=STABLE,
            assigned_partitions=write_topics(self.assigned),
        )


def read_topics(topics: Iterable[AssignedTopic]) -> dict[UUID, frozenset[int]]:
    """Partitions out of a record."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}


def write_topics(partitions: Partitions) -> list[AssignedTopic]:
    """Partitions as a record has them."""
    return [
        AssignedTopic(topic_id=topic_id, partitions=sorted(numbers))
        for topic_id, numbers in partitions.items()
    ]
