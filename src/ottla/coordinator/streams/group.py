"""A streams group (KIP-1071): the instances of one Kafka Streams application.

Rules kept here:
1. The group's state is made by its records: only the `replay_*` methods change it. The soft values
   at the end follow from it or may be lost.
2. The group epoch grows with every change of members, topology, topics or settings. A target
   assignment is made for an epoch; each member then comes to it in its own time.
3. Deletions of what is not there are passed over: a compacted log may have them alone.

| state       | when                                                             |
|-------------|------------------------------------------------------------------|
| Empty       | it has no members                                                |
| NotReady    | its topics are not as its topology needs them                    |
| Assigning   | its epoch is ahead of the target assignment's                    |
| Reconciling | some member has not come to the target assignment                |
| Stable      | every member has all of its target                               |
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ottla.coordinator.group import BaseTimestamp, Committer, CommitTopic, Group, GroupType
from ottla.coordinator.offsets.store import commit_time
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import CoordinatorRecord
from ottla.coordinator.streams.configured import ConfiguredTopology
from ottla.coordinator.streams.member import StreamsMember
from ottla.coordinator.streams.owners import TaskOwners
from ottla.coordinator.streams.records import group_tombstones, member_tombstones
from ottla.coordinator.streams.schemas import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyValue,
)
from ottla.coordinator.streams.tasks import NOTHING, Target, read
from ottla.coordinator.streams.topology import StreamsTopology
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.streams_group_heartbeat import EndpointToPartitions

FIRST_EPOCH = 1
NO_TIME = 0
STREAMS_PROTOCOL_FROM = 9
"""The first version of OffsetCommit that members with the streams protocol may use."""


@dataclass(slots=True)
class StreamsGroup(Group):
    """One group."""

    TYPE: ClassVar[GroupType] = GroupType.STREAMS

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    """Of the topics that the epoch was made for."""
    validated_topology_epoch: int = 0
    """The topology whose topics were all right for this epoch."""
    assignment_configs: Mapping[str, str] = field(default_factory=dict)
    """The settings that the epoch was made with."""
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp: int = NO_TIME
    topology: StreamsTopology | None = None
    members: dict[str, StreamsMember] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    owners: TaskOwners = field(default_factory=TaskOwners)

    configured: ConfiguredTopology | None = None
    """Soft: the topology as the topics were when they were last looked at."""
    seen_topics: int | None = None
    """Soft: the version of the topics at that time."""
    is_delayed: bool = False
    """Soft: true while a new group waits for more members."""
    shutdown_by: str | None = None
    """Soft: the member that has asked all to shut down."""
    endpoint_epoch: int = 0
    """Soft: grows when tasks of a member with an endpoint change."""
    endpoints: dict[str, EndpointToPartitions] = field(default_factory=dict)
    """Soft: what members are told of each other's endpoints."""

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """True where it has no members."""
        return not self.members

    @property
    def state_name(self) -> str:
        """The state, by Kafka's name."""
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def listed_protocol_type(self) -> str:
        """As Kafka lists it."""
        return "streams"

    def known_member(self, member_id: str) -> StreamsMember:
        """The member of an id; UNKNOWN_MEMBER_ID where there is none."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def target_of(self, member_id: str) -> Target:
        """What a member shall have."""
        return self.targets.get(member_id, NOTHING)

    def is_subscribed_to(self, topic: str) -> bool:
        """True if the application reads the topic."""
        topology = self.topology
        return bool(self.members) and topology is not None and topic in topology.by_source

    # Its offsets ---------------------------------------------------------------------------

    def check_commit(self, committer: Committer, topics: Iterable[CommitTopic]) -> None:
        """A member may commit with its epoch, or with one in which it had the tasks."""
        if committer.epoch < 0 and self.is_empty:
            return
        if committer.is_transactional and committer.is_anonymous:
            return
        member = self.known_member(committer.member_id)
        if committer.version < STREAMS_PROTOCOL_FROM and not committer.is_transactional:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if committer.epoch == member.member_epoch:
            return
        if committer.epoch > member.member_epoch or self.topology is None:
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)
        for topic in topics:
            for partition in topic.partitions:
                if topic.info is None or not topic.has(partition):
                    continue
                reader = self.topology.by_source.get(topic.info.name)
                epoch = (
                    None
                    if reader is None
                    else member.epoch_of((reader.subtopology_id, partition.partition_index))
                )
                if epoch is None or committer.epoch < epoch:
                    raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    def keep_session(self, committer: Committer, draft: ResultDraft) -> None:
        """Only heartbeats keep a session alive."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """A member may fetch with its own epoch, anyone else without member and epoch."""
        if member_id is None and member_epoch < 0:
            return
        if self.known_member(member_id or "").member_epoch != member_epoch:
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    def check_offset_delete(self) -> None:
        """Each topic is checked by itself: `is_subscribed_to`."""

    def offset_expiration(self) -> BaseTimestamp | None:
        """The retention of an offset counts from its commit."""
        return commit_time

    def tombstones(self) -> Iterator[CoordinatorRecord]:
        """The records that delete the group."""
        for member_id in self.members:
            yield from member_tombstones(self.group_id, member_id)
        yield from group_tombstones(self.group_id)

    # Replay --------------------------------------------------------------------------------

    def replay_epoch(self, value: StreamsGroupMetadataValue) -> None:
        """The group has a new epoch."""
        self.epoch = value.epoch
        self.metadata_hash = value.metadata_hash
        self.validated_topology_epoch = value.validated_topology_epoch
        self.assignment_configs = {each.key: each.value for each in value.last_assignment_configs}

    def replay_topology(self, value: StreamsGroupTopologyValue | None) -> None:
        """The application is made of other parts."""
        self.topology = None if value is None else StreamsTopology.of(value)

    def replay_member(self, member_id: str, value: StreamsGroupMemberMetadataValue | None) -> None:
        """A member said something of itself, or went."""
        if value is None:
            self._put(member_id, None)
            self.targets.pop(member_id, None)
            if not self.members:
                self.shutdown_by = None
        else:
            self._put(member_id, self._member(member_id).with_metadata(value))

    def replay_current(
        self, member_id: str, value: StreamsGroupCurrentMemberAssignmentValue | None
    ) -> None:
        """A member has other tasks. A deletion of it comes with that of the member."""
        if value is not None:
            self._put(member_id, self._member(member_id).with_current(value))

    def replay_target(
        self, member_id: str, value: StreamsGroupTargetAssignmentMemberValue | None
    ) -> None:
        """A member shall have other tasks."""
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = Target(
                read(value.active_tasks), read(value.standby_tasks), read(value.warmup_tasks)
            )

    def replay_target_epoch(self, value: StreamsGroupTargetAssignmentMetadataValue | None) -> None:
        """There is a new target assignment."""
        self.assignment_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
        self.assignment_timestamp = NO_TIME if value is None else value.assignment_timestamp

    def _member(self, member_id: str) -> StreamsMember:
        return self.members.get(member_id) or StreamsMember(member_id)

    def _put(self, member_id: str, member: StreamsMember | None) -> None:
        self.owners.replaced(self.members.get(member_id), member)
        self.endpoints.pop(member_id, None)
        if member is None:
            self.members.pop(member_id, None)
        else:
            self.members[member_id] = member
