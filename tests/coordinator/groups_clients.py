"""Members of groups in a World: they say one thing at a time, and a test sees each answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from struct import pack

from ottla.coordinator.shard import Deferred
from ottla.wire.codec import encode
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from ottla.wire.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from ottla.wire.messages.consumer_protocol_subscription import (
    TopicPartition as OwnedTopicPartition,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from .groups_world import World, answer, context

GROUP = "g"


def subscription(
    *topics: str, owned: Mapping[str, Sequence[int]] | None = None, version: int = 1
) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[
            OwnedTopicPartition(topic=topic, partitions=list(numbers))
            for topic, numbers in (owned or {}).items()
        ],
    )
    return pack(">h", version) + encode(message, version)


def assignment(**topics: Sequence[int]) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topic, partitions=list(numbers))
            for topic, numbers in topics.items()
        ]
    )
    return pack(">h", 1) + encode(message, 1)


@dataclass
class ClassicClient:
    """A consumer of the classic protocol."""

    world: World
    group_id: str = GROUP
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    protocols: list[tuple[str, bytes]] = field(
        default_factory=lambda: [("range", subscription("a"))]
    )
    protocol_type: str = "consumer"
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 30_000
    version: int = 9
    client_id: str = "app"
    leader: str = ""

    def ask_to_join(self) -> JoinGroupResponse | Deferred:
        """Send one JoinGroup; note the member id that comes back at once."""
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=data) for name, data in self.protocols
            ],
        )
        reply = self.world.take(
            self.world.shard.handle_join_group(
                request, context(self.version, self.client_id), self.world.now
            )
        )
        if isinstance(reply, JoinGroupResponse) and reply.error_code in (
            ErrorCode.MEMBER_ID_REQUIRED,
            ErrorCode.NONE,
        ):
            self.note(reply)
        return reply

    def join(self) -> int:
        """Join as a client does, with a second request where an id is required; park."""
        reply = self.ask_to_join()
        if isinstance(reply, JoinGroupResponse):
            assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED, reply
            reply = self.ask_to_join()
        assert isinstance(reply, Deferred), reply
        return reply.token

    def joined(self, token: int) -> JoinGroupResponse:
        """The answer to a parked join, which must have come."""
        reply = self.world.answers[token]
        assert isinstance(reply, JoinGroupResponse)
        self.note(reply)
        return reply

    def note(self, reply: JoinGroupResponse) -> None:
        self.member_id = reply.member_id
        self.generation = reply.generation_id
        self.leader = reply.leader

    def ask_to_sync(
        self,
        assignments: Mapping[str, bytes] | None = None,
        *,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        version: int = 5,
    ) -> SyncGroupResponse | Deferred:
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=data)
                for member_id, data in (assignments or {}).items()
            ],
        )
        if version >= 5:
            request.protocol_type = protocol_type or self.protocol_type
            request.protocol_name = protocol_name or self.protocols[0][0]
        return self.world.take(
            self.world.shard.handle_sync_group(request, context(version), self.world.now)
        )

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> int:
        reply = self.ask_to_sync(assignments)
        assert isinstance(reply, Deferred), reply
        return reply.token

    def synced(self, token: int) -> SyncGroupResponse:
        reply = self.world.answers[token]
        assert isinstance(reply, SyncGroupResponse)
        return reply

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        result = self.world.shard.handle_heartbeat(request, context(4), self.world.now)
        self.world.take(result)
        return ErrorCode(answer(result).error_code)

    def leave(self, version: int = 5) -> LeaveGroupResponse:
        request = LeaveGroupRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            members=[MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)],
        )
        result = self.world.shard.handle_leave_group(request, context(version), self.world.now)
        self.world.take(result)
        return answer(result)

    def commit(self, offset: int, partition: int = 0) -> ErrorCode:
        return commit(
            self.world,
            offset,
            partition,
            group_id=self.group_id,
            member_id=self.member_id,
            epoch=self.generation,
            instance_id=self.instance_id,
        )


def stable_group(world: World, size: int, **settings: object) -> list[ClassicClient]:
    """A classic group whose members have all synced; the first is the leader."""
    members = [ClassicClient(world) for _ in range(size)]
    for member in members:
        for name, value in settings.items():
            setattr(member, name, value)
    tokens = [member.join() for member in members]
    while world.parked:
        world.advance(500)
    for member, token in zip(members, tokens, strict=True):
        assert member.joined(token).error_code == ErrorCode.NONE
    sync_all(members)
    return members


def sync_all(members: Sequence[ClassicClient]) -> dict[str, bytes]:
    """Everyone syncs, the leader last; each gets its own name as assignment."""
    plan = {member.member_id: member.member_id.encode() for member in members}
    leader = leader_of(members)
    tokens = {
        member.member_id: member.sync(plan if member is leader else None)
        for member in sorted(members, key=lambda member: member is leader)
    }
    for member in members:
        assert member.synced(tokens[member.member_id]).assignment == plan[member.member_id]
    return plan


def leader_of(members: Sequence[ClassicClient]) -> ClassicClient:
    return next(member for member in members if member.member_id == member.leader)


def commit(
    world: World,
    offset: int,
    partition: int = 0,
    *,
    topic: str = "a",
    group_id: str = GROUP,
    member_id: str = "",
    epoch: int = -1,
    instance_id: str | None = None,
    metadata: str | None = "",
    version: int = 9,
    retention_ms: int = -1,
) -> ErrorCode:
    """Commit one offset; return what was said of it."""
    info = world.topics.by_name(topic)
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance_id,
        retention_time_ms=retention_ms,
        topics=[
            OffsetCommitRequestTopic(
                name=topic if version < 10 else "",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata=metadata,
                    )
                ],
            )
        ],
    )
    if version >= 10 and info is not None:
        request.topics[0].topic_id = info.topic_id
    result = world.shard.handle_offset_commit(request, context(version), world.now)
    world.take(result)
    return ErrorCode(answer(result).topics[0].partitions[0].error_code)


def commit_in_transaction(
    world: World,
    offset: int,
    partition: int = 0,
    *,
    producer_id: int = 1,
    topic: str = "a",
    group_id: str = GROUP,
    member_id: str = "",
    generation: int = -1,
) -> ErrorCode:
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=0,
        generation_id=generation,
        member_id=member_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset
                    )
                ],
            )
        ],
    )
    result = world.shard.handle_txn_offset_commit(request, context(5), world.now)
    world.take(result)
    return ErrorCode(answer(result).topics[0].partitions[0].error_code)


def fetch(
    world: World,
    partition: int = 0,
    *,
    topic: str = "a",
    group_id: str = GROUP,
    require_stable: bool = False,
) -> int | ErrorCode:
    """The committed offset of a partition, or the error."""
    request = OffsetFetchRequestGroup(
        group_id=group_id,
        topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])],
    )
    reply = answer(
        world.shard.handle_offset_fetch(
            request, context(9), world.now, require_stable=require_stable
        )
    )
    if reply.error_code:
        return ErrorCode(reply.error_code)
    found = reply.topics[0].partitions[0]
    return ErrorCode(found.error_code) if found.error_code else found.committed_offset


@dataclass
class Consumer:
    """A member of the consumer protocol, which follows its assignment."""

    world: World
    member_id: str
    group_id: str = GROUP
    instance_id: str | None = None
    topics: list[str] = field(default_factory=lambda: ["a"])
    regex: str | None = None
    assignor: str | None = None
    rebalance_timeout_ms: int = 20_000
    epoch: int = 0
    owned: dict[str, list[int]] = field(default_factory=dict)

    def send(
        self,
        changes: Mapping[str, object] | None = None,
        *,
        full: bool = False,
        owned: bool = True,
        version: int = 1,
        **more_changes: object,
    ) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat, and note nothing of the answer."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
        )
        if owned:
            request.topic_partitions = [
                TopicPartitions(topic_id=self.world.topics.id_of(name), partitions=numbers)
                for name, numbers in self.owned.items()
                if numbers and self.world.topics.by_name(name) is not None
            ]
        if full or self.epoch == 0:
            request.rebalance_timeout_ms = self.rebalance_timeout_ms
            request.subscribed_topic_names = self.topics
            request.subscribed_topic_regex = self.regex
            request.server_assignor = self.assignor
        for name, value in {**(changes or {}), **more_changes}.items():
            setattr(request, name, value)
        result = self.world.shard.handle_consumer_group_heartbeat(
            request, context(version), self.world.now
        )
        self.world.take(result)
        return answer(result)

    def heartbeat(self, *, full: bool = False) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat, and follow the answer."""
        reply = self.send(full=full)
        assert reply.error_code == ErrorCode.NONE, reply
        self.follow(reply)
        return reply

    def follow(self, reply: ConsumerGroupHeartbeatResponse) -> None:
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.owned = {
                topic.name: part.partitions
                for part in reply.assignment.topic_partitions
                if (topic := self.world.topics.by_id(part.topic_id)) is not None
            }

    def join(self) -> ConsumerGroupHeartbeatResponse:
        self.epoch = 0
        self.owned = {}
        return self.heartbeat()

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        return self.send(member_epoch=epoch, topic_partitions=None)


def settle(*members: Consumer, rounds: int = 8) -> None:
    """Let members send heartbeats until all have what they shall have."""
    for _ in range(rounds):
        members[0].world.advance(1_000)
        for member in members:
            member.heartbeat()
