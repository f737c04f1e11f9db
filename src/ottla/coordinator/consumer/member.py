"""A member of a consumer group (KIP-848): what it asked for, and what it owns.

Rules kept here:
1. A member is a value: handlers make changed copies, only replay puts one into its group.
2. A partition is a member's from the moment it is assigned until the member has given it up;
   in between it may be pending revocation. Nobody else gets it before that.
3. The epoch in which a partition came to the member goes with it, so that an offset commit of an
   older epoch is still good for partitions that the member had then.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from uuid import UUID

from ottla.coordinator.consumer.schemas import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    CurrentTopicPartitions,
)
from ottla.wire.messages.consumer_group_heartbeat import TopicPartitions

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
LEAVING_STATIC_EPOCH = -2
"""A static member that says it will be back within its session."""

Owned = dict[UUID, dict[int, int]]
"""The partitions of each topic, with the epoch in which each was assigned."""


class MemberState(IntEnum):
    """How far a member has come towards its target assignment."""

    STABLE = 0
    """It has all of it, in the epoch of the target."""
    UNREVOKED_PARTITIONS = 1
    """It has to give up partitions before it can continue to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It is in the target's epoch, and waits for partitions that others have not given up."""
    UNKNOWN = 127
    """Written by a broker that knows more states."""


_STATES = {int(state): state for state in MemberState}


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    """A member whose last answer was lost comes with this one."""
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_topics: frozenset[str] = frozenset()
    subscribed_regex: str = ""
    server_assignor: str | None = None
    assigned: Owned = field(default_factory=dict)
    pending_revocation: Owned = field(default_factory=dict)
    classic: ClassicMemberMetadata | None = None
    """Set for a member that uses the classic protocol."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """True if it has all of its target of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def assignment_epoch(self, topic_id: UUID, partition: int) -> int | None:
        """When a partition came to the member, None where it is not the member's."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        if epoch is None:
            epoch = self.pending_revocation.get(topic_id, {}).get(partition)
        return epoch

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        """The member, as it described itself in a record."""
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            subscribed_topics=frozenset(value.subscribed_topic_names),
            subscribed_regex=value.subscribed_topic_regex or "",
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_current(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> "ConsumerMember":
        """The member, with what it owns by a record."""
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=_read(value.assigned_partitions, value.member_epoch),
            pending_revocation=_read(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_partitions(self) -> "ConsumerMember":
        """The member after its record of ownership was deleted: it is about to go."""
        return replace(
            self,
            member_epoch=LEAVING_EPOCH,
            previous_member_epoch=LEAVING_EPOCH,
            assigned={},
            pending_revocation={},
        )

    def to_metadata(self) -> ConsumerGroupMemberMetadataValue:
        """The record's value of what the member said of itself."""
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.subscribed_topics),
            subscribed_topic_regex=self.subscribed_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=self.classic,
        )

    def to_current(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """The record's value of what the member owns."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            assigned_partitions=_write(self.assigned),
            partitions_pending_revocation=_write(self.pending_revocation),
        )


def owns_any(owned: Iterable[TopicPartitions] | None, partitions: Owned) -> bool:
    """True if a member still has any of these partitions, or does not say what it has."""
    if owned is None:
        return True
    return any(
        partition in partitions.get(topic.topic_id, ())
        for topic in owned
        for partition in topic.partitions
    )


def owns_only(owned: Iterable[TopicPartitions] | None, partitions: Owned) -> bool:
    """True if a member says what it has, and all of it is in these partitions."""
    return owned is not None and all(
        partition in partitions.get(topic.topic_id, ())
        for topic in owned
        for partition in topic.partitions
    )


def _read(topics: Iterable[CurrentTopicPartitions], member_epoch: int) -> Owned:
    owned: Owned = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if len(epochs) != len(topic.partitions):
            # Records of Kafka before 4.2 have none. A static member that left has epoch -2.
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


def _write(owned: Owned) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(
            topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values())
        )
        for topic_id, epochs in owned.items()
    ]
