"""A share group: its members, their targets, and its share partitions.

Rules kept here:
1. Only replay changes what is written: members, epochs, targets, share partitions. What Kafka keeps
   in memory only (who waits, when an initialization began) is changed by handlers.
2. It keeps no committed offsets: commits, fetches and deletions of offsets are refused with
   GROUP_ID_NOT_FOUND, as in Kafka. It never expires; it is deleted on request.
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, NoReturn

from ottla.coordinator.group import BaseTimestamp, Committer, CommitTopic, Group, GroupType
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import CoordinatorRecord
from ottla.coordinator.share.initialization import StatePartitions, from_value
from ottla.coordinator.share.member import Partitions, ShareMember, read_topics
from ottla.coordinator.share.records import group_tombstones, member_tombstones
from ottla.coordinator.share.schemas import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataValue,
)
from ottla.wire.errors import ErrorCode, KafkaError

NO_TIME = 0


class ShareGroup(Group):
    """One share group."""

    __slots__ = (
        "assignment_epoch",
        "assignment_timestamp",
        "epoch",
        "group_id",
        "initializing_since",
        "members",
        "metadata_hash",
        "partitions",
        "seen_topics",
        "targets",
        "waiting",
    )

    TYPE: ClassVar[GroupType] = GroupType.SHARE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_timestamp = NO_TIME
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.partitions = StatePartitions()
        self.seen_topics = -1
        """The version of the topics that the epoch was last compared with."""
        self.initializing_since: dict[object, int] = {}
        """When this coordinator began to initialize each topic."""
        self.waiting: dict[str, list[int]] = {}
        """The tokens of parked heartbeats, by member."""

    @property
    def state_name(self) -> str:
        """Kafka's name."""
        return "Stable" if self.members else "Empty"

    @property
    def listed_protocol_type(self) -> str:
        """As Kafka lists it."""
        return "share"

    @property
    def is_empty(self) -> bool:
        """True where it has no members."""
        return not self.members

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.members)

    def known_member(self, member_id: str) -> ShareMember:
        """The member of an id; UNKNOWN_MEMBER_ID where there is none."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def is_subscribed_to(self, topic: str) -> bool:
        """True if some member uses the topic."""
        return any(topic in member.subscribed_topics for member in self.members.values())

    def check_commit(self, committer: Committer, topics: Iterable[CommitTopic]) -> None:
        """Share groups have no committed offsets."""
        self._refuse()

    def keep_session(self, committer: Committer, draft: ResultDraft) -> None:
        """Only heartbeats keep a session alive."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Share groups have no committed offsets."""
        self._refuse()

    def check_offset_delete(self) -> None:
        """Share groups have no committed offsets."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {self.group_id} is a share group, which has no committed offsets.",
        )

    def offset_expiration(self) -> BaseTimestamp | None:
        """There are no offsets that could expire."""
        return None

    @property
    def may_expire(self) -> bool:
        """Its start offsets are kept until it is deleted."""
        return False

    def tombstones(self) -> Iterator[CoordinatorRecord]:
        """The records that delete the group."""
        for member_id in self.members:
            yield from member_tombstones(self.group_id, member_id)
        yield from group_tombstones(self.group_id)

    def replay_epoch(self, value: ShareGroupMetadataValue) -> None:
        """The group has a new epoch."""
        self.epoch = value.epoch
        self.metadata_hash = value.metadata_hash

    def replay_member(self, member_id: str, value: ShareGroupMemberMetadataValue | None) -> None:
        """A member said something of itself, or went."""
        if value is None:
            self.members.pop(member_id, None)
            self.targets.pop(member_id, None)
        else:
            self.members[member_id] = self._member(member_id).with_metadata(value)

    def replay_current(
        self, member_id: str, value: ShareGroupCurrentMemberAssignmentValue | None
    ) -> None:
        """A member reads something else."""
        if value is not None:
            self.members[member_id] = self._member(member_id).with_current(value)

    def replay_target(
        self, member_id: str, value: ShareGroupTargetAssignmentMemberValue | None
    ) -> None:
        """A member shall read something else."""
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = read_topics(value.topic_partitions)

    def replay_target_epoch(self, value: ShareGroupTargetAssignmentMetadataValue | None) -> None:
        """There is a new target assignment."""
        self.assignment_epoch = 0 if value is None else value.assignment_epoch
        self.assignment_timestamp = NO_TIME if value is None else value.assignment_timestamp

    def replay_partitions(self, value: ShareGroupStatePartitionMetadataValue | None) -> None:
        """Other share partitions have state."""
        self.partitions = StatePartitions() if value is None else from_value(value)

    def _member(self, member_id: str) -> ShareMember:
        return self.members.get(member_id) or ShareMember(member_id)
