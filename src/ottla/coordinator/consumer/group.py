"""A consumer group (KIP-848): the coordinator divides the partitions, members follow by heartbeat.

Rules kept here:
1. The group's state is made by its records: only the `replay_*` methods change it. The few soft
   values at the end only save work, and may be lost.
2. The group epoch grows with every change of members, subscriptions or topics. A target assignment
   is made for an epoch; each member then comes to it in its own time.
3. A partition has at most one owner: the member that has it assigned or pending revocation. A
   later record wins, so that a compacted log reads the same as a whole one.
4. Deletions of what is not there are passed over: a compacted log may have them alone.

| state       | when                                                             |
|-------------|------------------------------------------------------------------|
| Empty       | it has no members                                                |
| Assigning   | its epoch is ahead of the target assignment's                    |
| Reconciling | some member has not come to the target assignment                |
| Stable      | every member has all of its target                               |
| Dead        | its records were deleted                                         |
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar
from uuid import UUID

from ottla.coordinator.consumer.assignment import Assignment
from ottla.coordinator.consumer.member import ConsumerMember, Owned
from ottla.coordinator.consumer.protocol import PROTOCOL_TYPE
from ottla.coordinator.consumer.records import (
    ResolvedRegex,
    current_record,
    epoch_record,
    group_tombstone,
    member_record,
    member_tombstones,
    regex_tombstone,
    target_epoch_record,
    target_epoch_tombstone,
    target_record,
    topics_tombstone,
)
from ottla.coordinator.consumer.schemas import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla.coordinator.group import BaseTimestamp, Committer, CommitTopic, Group, GroupType
from ottla.coordinator.offsets.store import commit_time
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import CoordinatorRecord
from ottla.wire.errors import ErrorCode, KafkaError

FIRST_EPOCH = 1
NO_TIME = 0
CONSUMER_PROTOCOL_FROM = 9
"""The first version of OffsetCommit that members with the consumer protocol may use."""


class ConsumerState(Enum):
    """Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class ConsumerGroup(Group):
    """One group."""

    TYPE: ClassVar[GroupType] = GroupType.CONSUMER

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    """Of the topics that the epoch was made for."""
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp: int = NO_TIME
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """The member id of each instance id."""
    targets: dict[str, Assignment] = field(default_factory=dict)
    owners: dict[UUID, dict[int, str]] = field(default_factory=dict)
    """The owner of each partition that has one."""
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    has_topic_records: bool = False
    """True if a Kafka before 4.1 left the group's topics in the log."""

    seen_topics: int | None = None
    """Soft: the version of the topics that the group was last checked against."""
    seen_regexes: tuple[int, int] | None = None
    """Soft: the version of the topics at which all patterns were last looked up, and when."""
    awaited_joins: set[str] = field(default_factory=set)
    """Soft: classic members that were asked to join again."""

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """True where it has no members."""
        return not self.members

    @property
    def state(self) -> ConsumerState:
        """What a description of the group says."""
        if self.is_empty:
            return ConsumerState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def state_name(self) -> str:
        """The state, by Kafka's name."""
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        """All of them use the consumer protocol."""
        return PROTOCOL_TYPE

    def known_member(self, member_id: str) -> ConsumerMember:
        """The member of an id; UNKNOWN_MEMBER_ID where there is none."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def known_static_member(self, instance_id: str, member_id: str | None) -> ConsumerMember:
        """The member of an instance id, which must have this member id where one is given."""
        member = self.static_member(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if member_id is not None and member.member_id != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member "
                f"{member.member_id}.",
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member of an instance id."""
        if instance_id is None or instance_id not in self.static_members:
            return None
        return self.members[self.static_members[instance_id]]

    def target_of(self, member: ConsumerMember) -> Assignment:
        """What a member, or the one whose place it takes, shall have."""
        replaced = self.static_member(member.instance_id)
        return self.targets.get(replaced.member_id if replaced else member.member_id, {})

    def owner_of(self, topic_id: UUID, partition: int) -> str | None:
        """The member that has a partition."""
        return self.owners.get(topic_id, {}).get(partition)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """True if a partition that the member shall have still belongs to another."""
        return any(
            partition not in member.assigned.get(topic_id, ())
            and self.owner_of(topic_id, partition) is not None
            for topic_id, partitions in self.targets.get(member.member_id, {}).items()
            for partition in partitions
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """True if some member uses the topic."""
        return any(topic in member.subscribed_topics for member in self.members.values()) or any(
            topic in regex.topics for regex in self.regexes.values()
        )

    def check_commit(self, committer: Committer, topics: Iterable[CommitTopic]) -> None:
        """A member may commit with its epoch, or with one in which it had the partitions."""
        if committer.epoch < 0 and self.is_empty:
            return
        if committer.is_transactional and committer.is_anonymous:
            return
        member = self.known_member(committer.member_id)
        if (
            member.classic is None
            and committer.version < CONSUMER_PROTOCOL_FROM
            and not committer.is_transactional
        ):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if committer.epoch == member.member_epoch:
            return
        if committer.epoch > member.member_epoch:
            raise _stale(member)
        for topic in topics:
            for partition in topic.partitions:
                if topic.info is None or not topic.has(partition):
                    continue
                epoch = member.assignment_epoch(topic.info.topic_id, partition.partition_index)
                if epoch is None or committer.epoch < epoch:
                    raise _stale(member)

    def keep_session(self, committer: Committer, draft: ResultDraft) -> None:
        """Only heartbeats keep a session alive."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """A member that gives its id must give its present epoch too."""
        if member_id is None and member_epoch < 0:
            return
        member = self.known_member(member_id or "")
        if member_epoch != member.member_epoch:
            raise _stale(member)

    def check_offset_delete(self) -> None:
        """Offsets of topics that no member uses may go at any time."""

    def offset_expiration(self) -> BaseTimestamp | None:
        """From the commit, for topics that no member uses."""
        return commit_time

    def records(self) -> Iterator[CoordinatorRecord]:
        """The whole group, as it stands when a classic group has become one."""
        for member in self.members.values():
            yield member_record(self.group_id, member)
        yield epoch_record(self.group_id, self.epoch, self.metadata_hash)
        for member_id, target in self.targets.items():
            yield target_record(self.group_id, member_id, target)
        yield target_epoch_record(self.group_id, self.assignment_epoch, self.assignment_timestamp)
        for member in self.members.values():
            yield current_record(self.group_id, member)

    def tombstones(self) -> Iterator[CoordinatorRecord]:
        """The records that delete the group."""
        for member_id in self.members:
            yield from member_tombstones(self.group_id, member_id)
        yield target_epoch_tombstone(self.group_id)
        for regex in self.regexes:
            yield regex_tombstone(self.group_id, regex)
        if self.has_topic_records:
            yield topics_tombstone(self.group_id)
        yield group_tombstone(self.group_id)

    def replay_epoch(self, value: ConsumerGroupMetadataValue) -> None:
        """The group has a new epoch."""
        self.epoch = value.epoch
        self.metadata_hash = value.metadata_hash

    def replay_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        """A member said something of itself, or went."""
        if value is None:
            member = self.members.pop(member_id, None)
            if member is not None:
                self._disown(member)
                instance_id = member.instance_id
                if instance_id is not None and self.static_members.get(instance_id) == member_id:
                    del self.static_members[instance_id]
            self.targets.pop(member_id, None)
            self.awaited_joins.discard(member_id)
            return
        member = self._member(member_id).with_metadata(value)
        self.members[member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id

    def replay_current(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        """A member owns something else."""
        if value is None and member_id not in self.members:
            return
        member = self._member(member_id)
        self._disown(member)
        member = member.without_partitions() if value is None else member.with_current(value)
        self._own(member_id, member.assigned)
        self._own(member_id, member.pending_revocation)
        self.members[member_id] = member

    def replay_target(
        self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None
    ) -> None:
        """A member shall have something else."""
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = {
                topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
            }

    def replay_target_epoch(self, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
        """There is a new target assignment."""
        self.assignment_epoch = -1 if value is None else value.assignment_epoch
        self.assignment_timestamp = NO_TIME if value is None else value.assignment_timestamp

    def replay_regex(self, regex: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        """A pattern was looked up, or is no longer used."""
        if value is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = ResolvedRegex(
                frozenset(value.topics), value.version, value.timestamp
            )

    def _member(self, member_id: str) -> ConsumerMember:
        return self.members.get(member_id) or ConsumerMember(member_id)

    def _own(self, member_id: str, partitions: Owned) -> None:
        for topic_id, numbers in partitions.items():
            self.owners.setdefault(topic_id, {}).update(dict.fromkeys(numbers, member_id))

    def _disown(self, member: ConsumerMember) -> None:
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, numbers in partitions.items():
                owners = self.owners.get(topic_id, {})
                for number in numbers:
                    if owners.get(number) == member.member_id:
                        del owners[number]
                if not owners:
                    self.owners.pop(topic_id, None)


def _stale(member: ConsumerMember) -> KafkaError:
    if member.classic is not None:
        return KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH)
