"""The requests of a consumer group that protocol tests send, with what they rarely change."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from ottla.wire.errors import ErrorCode
from ottla.wire.message import NO_UUID
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartitions,
)
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from testkit.raw import PATIENCE_SECONDS, Connection
from testkit.waiting import stretched

GROUP = 0
TRANSACTION = 1
NO_GENERATION = -1
SESSION_MS = 10_000
PROTOCOLS = (("range", b"range"), ("roundrobin", b"roundrobin"))
NOT_YET = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


@dataclass(frozen=True)
class Joined:
    """A member of a group's generation."""

    member_id: str
    generation: int
    instance_id: str | None = None


def find_coordinator(connection: Connection, key: str, kind: int) -> None:
    """Ask until the coordinator of a group or a transactional id is known."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    deadline = time.monotonic() + stretched(PATIENCE_SECONDS)
    while True:
        (found,) = connection.ask(request, FindCoordinatorResponse, 4).coordinators
        if not found.error_code:
            return
        assert found.error_code in NOT_YET, found
        assert time.monotonic() < deadline, found


def coordinated(connection: Connection, group: str) -> str:
    """A group's name, once its coordinator answers for it."""
    find_coordinator(connection, group, GROUP)
    deadline = time.monotonic() + stretched(PATIENCE_SECONDS)
    while describe_group(connection, group).error_code in NOT_YET:
        assert time.monotonic() < deadline
    return group


def describe_group(connection: Connection, group: str, version: int = 6) -> DescribedGroup:
    """What DescribeGroups says about one group."""
    request = DescribeGroupsRequest(groups=[group])
    return connection.ask(request, DescribeGroupsResponse, version).groups[0]


def join_request(
    group: str,
    member_id: str = "",
    *,
    instance_id: str | None = None,
    protocols: Sequence[tuple[str, bytes]] = PROTOCOLS,
    protocol_type: str = "consumer",
    session_ms: int = SESSION_MS,
) -> JoinGroupRequest:
    """A member that wants to be in a classic group."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols
        ],
    )


def join(connection: Connection, request: JoinGroupRequest, version: int = 9) -> JoinGroupResponse:
    """Join and wait for the rebalance; a member id is asked for first where one is needed."""
    answer = connection.ask(request, JoinGroupResponse, version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        request.member_id = answer.member_id
        answer = connection.ask(request, JoinGroupResponse, version)
    return answer


def sync(
    connection: Connection,
    group: str,
    member: Joined,
    assignments: Sequence[tuple[str, bytes]] = (),
    *,
    protocol_type: str | None = "consumer",
    protocol_name: str | None = "range",
    version: int = 5,
) -> SyncGroupResponse:
    """Ask for an assignment; the leader brings those of all."""
    request = SyncGroupRequest(
        group_id=group,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=[
            SyncGroupRequestAssignment(member_id=who, assignment=what) for who, what in assignments
        ],
    )
    return connection.ask(request, SyncGroupResponse, version)


def join_alone(
    connection: Connection,
    group: str,
    *,
    instance_id: str | None = None,
    protocols: Sequence[tuple[str, bytes]] = PROTOCOLS,
) -> Joined:
    """Be the only member of a stable classic group."""
    request = join_request(group, instance_id=instance_id, protocols=protocols)
    answer = join(connection, request)
    assert answer.error_code == 0
    assert answer.leader == answer.member_id
    member = Joined(answer.member_id, answer.generation_id, instance_id)
    given = sync(
        connection, group, member, [(member.member_id, b"mine")], protocol_name=answer.protocol_name
    )
    assert (given.error_code, given.assignment) == (0, b"mine")
    return member


def heartbeat(connection: Connection, group: str, member: Joined, version: int = 4) -> int:
    """The error code that a classic member's heartbeat gets."""
    request = HeartbeatRequest(
        group_id=group,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
    )
    return connection.ask(request, HeartbeatResponse, version).error_code


def leave(
    connection: Connection, group: str, member_id: str, instance_id: str | None = None
) -> tuple[int, list[int]]:
    """Leave a classic group: the error codes of the request and of its members."""
    identity = MemberIdentity(member_id=member_id, group_instance_id=instance_id)
    request = LeaveGroupRequest(group_id=group, members=[identity])
    answer = connection.ask(request, LeaveGroupResponse, 5)
    return answer.error_code, [member.error_code for member in answer.members]


def commit(
    connection: Connection,
    group: str,
    topic: str | UUID,
    offset: int,
    partition: int = 0,
    *,
    member: Joined | None = None,
    metadata: str = "",
    version: int = 9,
) -> int:
    """Commit one offset; its error code."""
    where = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=metadata
    )
    part = OffsetCommitRequestTopic(
        name=topic if isinstance(topic, str) else "",
        topic_id=topic if isinstance(topic, UUID) else NO_UUID,
        partitions=[where],
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=NO_GENERATION if member is None else member.generation,
        member_id="" if member is None else member.member_id,
        group_instance_id=None if member is None else member.instance_id,
        topics=[part],
    )
    answer = connection.ask(request, OffsetCommitResponse, version)
    return answer.topics[0].partitions[0].error_code


def fetch_offset(
    connection: Connection,
    group: str,
    topic: str,
    partition: int = 0,
    *,
    member_id: str | None = None,
    member_epoch: int = -1,
    require_stable: bool = False,
) -> tuple[int, OffsetFetchResponsePartitions | None]:
    """What a group has committed for one partition: the group's error code, and the answer."""
    wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
    asked = OffsetFetchRequestGroup(
        group_id=group, member_id=member_id, member_epoch=member_epoch, topics=[wanted]
    )
    request = OffsetFetchRequest(groups=[asked], require_stable=require_stable)
    (answer,) = connection.ask(request, OffsetFetchResponse, 9).groups
    return answer.error_code, answer.topics[0].partitions[0] if answer.topics else None


def committed(connection: Connection, group: str, topic: str, partition: int = 0) -> int:
    """The offset that a group has committed, -1 for none."""
    error, answer = fetch_offset(connection, group, topic, partition)
    assert error == 0
    assert answer is not None
    assert answer.error_code == 0
    return answer.committed_offset


def consumer_heartbeat(
    connection: Connection,
    group: str,
    member_id: str,
    epoch: int,
    *,
    topics: Sequence[str] | None = None,
    regex: str | None = None,
    instance_id: str | None = None,
    assignor: str | None = None,
    rebalance_ms: int = -1,
    owned: Sequence[TopicPartitions] | None = None,
    version: int = 1,
) -> ConsumerGroupHeartbeatResponse:
    """One heartbeat of a member of a consumer group (KIP-848)."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=instance_id,
        rebalance_timeout_ms=rebalance_ms,
        subscribed_topic_names=None if topics is None else list(topics),
        subscribed_topic_regex=regex,
        server_assignor=assignor,
        topic_partitions=None if owned is None else list(owned),
    )
    return connection.ask(request, ConsumerGroupHeartbeatResponse, version)


def join_consumer_group(
    connection: Connection,
    group: str,
    member_id: str,
    topics: Sequence[str],
    instance_id: str | None = None,
) -> ConsumerGroupHeartbeatResponse:
    """The first heartbeat of a member that subscribes to topics."""
    return consumer_heartbeat(
        connection,
        group,
        member_id,
        0,
        topics=topics,
        instance_id=instance_id,
        rebalance_ms=SESSION_MS,
        owned=[],
    )
