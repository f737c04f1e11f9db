"""Scripts of group requests, and the answers to them.

A script is about one group and a few clients, named by letters. Its steps are written so that the
answers are the same wherever it is played: a client continues from its own last answer, member ids
are left out, and of a member's partitions only the number is shown. Each step has the
millisecond at which it was taken, so that timers fire alike.

| step                                        | answer                                        |
|---------------------------------------------|-----------------------------------------------|
| join client version instance session        | error, generation, protocol, leads, members   |
|                                             | told of, skips; or "parked"                   |
| sync client version protocol                | error, partitions, protocol; or "parked"      |
| poll client                                 | that of the join or sync that was parked      |
| beat client                                 | error                                         |
| leave client version                        | error, the error of each member               |
| forget client                               | nothing: its process was started again        |
| commit client version partition             | error                                         |
| fetch partition                             | error, offset                                 |
| drop partition                              | error, error of the partition (OffsetDelete)  |
| delete                                      | error (DeleteGroups)                          |
| describe                                    | error, state, protocol, members               |
| cjoin client instance assignor              | error, epoch, partitions (-1: not told)       |
| cbeat client tells_all epoch_change         | the same                                      |
| cleave client epoch                         | the same                                      |
| cdescribe                                   | error, state, epochs, epoch and partitions    |
|                                             | (had, to have) of each member                 |

`groups_transcript.json` has scripts with the answers of Apache Kafka 4.3.0, written by
`groups_transcript_recorder`.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias
from uuid import UUID

from ottla.coordinator.consumer.protocol import read_assignment
from ottla.wire.message import Message
from ottla.wire.messages import consumer_group_describe as describe_messages
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
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
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

from .groups_clients import assignment, subscription

TRANSCRIPT = Path(__file__).with_name("groups_transcript.json")
TOPIC = "transcript6"
PARTITIONS = 6
"""One, two or three members have as many each."""
PARKED = "parked"

Value: TypeAlias = int | str
Step: TypeAlias = list[Value]
Answer: TypeAlias = list[Value]


class Coordinator(Protocol):
    """Something that scripts can be played on."""

    def ask(self, client: str, request: Message, version: int) -> Message | None:
        """The answer, None where the request is parked."""

    def poll(self, client: str) -> Message | None:
        """The answer to a client's parked request, None while it waits."""


@dataclass
class Client:
    """What a client knows."""

    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    leader: str = ""
    numbers: list[int] = field(default_factory=list)
    """The partitions of a classic member."""
    owned: dict[UUID, list[int]] = field(default_factory=dict)


class Play:
    """One script on one coordinator."""

    def __init__(self, coordinator: Coordinator, group_id: str) -> None:
        self._coordinator = coordinator
        self._group_id = group_id
        self._clients: dict[str, Client] = {}
        self._commits = 0
        self._starts = 0

    def step(self, step: Step) -> Answer:
        """Play one step."""
        name, *rest = step
        answer: Answer = getattr(self, f"_{name}")(*rest)
        return answer

    def _client(self, name: str) -> Client:
        return self._clients.setdefault(name, Client())

    def _ask(self, client: str, request: Message, version: int) -> Message | None:
        return self._coordinator.ask(client, request, version)

    def _join(self, name: str, version: int, instance: str, session_ms: int) -> Answer:
        client = self._client(name)
        client.instance_id = instance or None
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=4_000,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(
                    name="range", metadata=subscription(TOPIC, owned={TOPIC: client.numbers})
                )
            ],
        )
        return self._told(name, self._ask(name, request, version))

    def _sync(self, name: str, version: int, protocol: str) -> Answer:
        client = self._client(name)
        assignments = []
        if client.leader == client.member_id:
            assignments = [
                SyncGroupRequestAssignment(
                    member_id=other.member_id,
                    assignment=assignment(**{TOPIC: [number, number + 1, number + 2]}),
                )
                for other, number in zip(self._clients.values(), (0, 3), strict=False)
            ]
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocol_name=protocol or None,
            assignments=assignments,
        )
        return self._told(name, self._ask(name, request, version))

    def _poll(self, name: str) -> Answer:
        return self._told(name, self._coordinator.poll(name))

    def _told(self, name: str, reply: Message | None) -> Answer:
        client = self._client(name)
        if reply is None:
            return [PARKED]
        if isinstance(reply, SyncGroupResponse):
            if reply.error_code == 0:
                client.numbers = []
                if reply.assignment:
                    for topic in read_assignment(reply.assignment).assigned_partitions:
                        client.numbers.extend(topic.partitions)
            return [reply.error_code, len(client.numbers), reply.protocol_name or ""]
        assert isinstance(reply, JoinGroupResponse)
        if reply.error_code in (0, 79):
            client.member_id = reply.member_id
        if reply.error_code == 0:
            client.generation, client.leader = reply.generation_id, reply.leader
        return [
            reply.error_code,
            reply.generation_id,
            reply.protocol_name or "",
            int(bool(reply.member_id) and reply.leader == reply.member_id),
            len(reply.members),
            int(reply.skip_assignment),
        ]

    def _beat(self, name: str) -> Answer:
        client = self._client(name)
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
        )
        reply = self._ask(name, request, 4)
        assert isinstance(reply, HeartbeatResponse)
        return [reply.error_code]

    def _leave(self, name: str, version: int) -> Answer:
        client = self._client(name)
        identity = MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id)
        request = LeaveGroupRequest(
            group_id=self._group_id, member_id=client.member_id, members=[identity]
        )
        reply = self._ask(name, request, version)
        assert isinstance(reply, LeaveGroupResponse)
        return [reply.error_code, *(member.error_code for member in reply.members)]

    def _forget(self, name: str) -> Answer:
        self._clients.pop(name, None)
        return []

    def _commit(self, name: str, version: int, partition: int) -> Answer:
        client = self._client(name)
        self._commits += 1
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=self._commits
                        )
                    ],
                )
            ],
        )
        reply = self._ask(name, request, version)
        assert isinstance(reply, OffsetCommitResponse)
        return [reply.topics[0].partitions[0].error_code]

    def _fetch(self, partition: int) -> Answer:
        topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[partition])
        group = OffsetFetchRequestGroup(group_id=self._group_id, topics=[topic])
        reply = self._ask("", OffsetFetchRequest(groups=[group]), 9)
        assert isinstance(reply, OffsetFetchResponse)
        found = reply.groups[0].topics[0].partitions[0]
        return [found.error_code, found.committed_offset]

    def _drop(self, partition: int) -> Answer:
        part = OffsetDeleteRequestPartition(partition_index=partition)
        request = OffsetDeleteRequest(
            group_id=self._group_id,
            topics=[OffsetDeleteRequestTopic(name=TOPIC, partitions=[part])],
        )
        reply = self._ask("", request, 0)
        assert isinstance(reply, OffsetDeleteResponse)
        parts = [part.error_code for topic in reply.topics for part in topic.partitions]
        return [reply.error_code, *parts]

    def _delete(self) -> Answer:
        reply = self._ask("", DeleteGroupsRequest(groups_names=[self._group_id]), 2)
        assert isinstance(reply, DeleteGroupsResponse)
        return [reply.results[0].error_code]

    def _describe(self) -> Answer:
        reply = self._ask("", DescribeGroupsRequest(groups=[self._group_id]), 6)
        assert isinstance(reply, DescribeGroupsResponse)
        (group,) = reply.groups
        return [group.error_code, group.group_state, group.protocol_data, len(group.members)]

    def _cjoin(self, name: str, instance: str, assignor: str) -> Answer:
        client = self._client(name)
        self._starts += 1
        client.member_id = client.member_id or f"{name}-{self._starts}"
        client.instance_id = instance or None
        client.generation, client.owned = 0, {}
        return self._heartbeat(
            name,
            ConsumerGroupHeartbeatRequest(
                member_epoch=0,
                rebalance_timeout_ms=4_000,
                subscribed_topic_names=[TOPIC],
                server_assignor=assignor or None,
                topic_partitions=[],
            ),
        )

    def _cbeat(self, name: str, tells_all: int, epoch_change: int) -> Answer:
        client = self._client(name)
        request = ConsumerGroupHeartbeatRequest(
            member_epoch=client.generation + epoch_change,
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in client.owned.items()
            ],
        )
        if tells_all:
            request.rebalance_timeout_ms = 4_000
            request.subscribed_topic_names = [TOPIC]
        return self._heartbeat(name, request)

    def _cleave(self, name: str, epoch: int) -> Answer:
        return self._heartbeat(name, ConsumerGroupHeartbeatRequest(member_epoch=epoch))

    def _heartbeat(self, name: str, request: ConsumerGroupHeartbeatRequest) -> Answer:
        client = self._client(name)
        request.group_id = self._group_id
        request.member_id = client.member_id
        request.instance_id = client.instance_id
        reply = self._ask(name, request, 1)
        assert isinstance(reply, ConsumerGroupHeartbeatResponse)
        if reply.error_code == 0 and reply.member_epoch >= 0:
            client.generation = reply.member_epoch
        told = -1
        if reply.assignment is not None:
            client.owned = {
                part.topic_id: part.partitions for part in reply.assignment.topic_partitions
            }
            told = sum(map(len, client.owned.values()))
        return [reply.error_code, reply.member_epoch, told]

    def _cdescribe(self) -> Answer:
        request = describe_messages.ConsumerGroupDescribeRequest(group_ids=[self._group_id])
        reply = self._ask("", request, 1)
        assert isinstance(reply, describe_messages.ConsumerGroupDescribeResponse)
        (group,) = reply.groups
        answer: Answer = [
            group.error_code,
            group.group_state,
            group.group_epoch,
            group.assignment_epoch,
        ]
        for member in sorted(
            (member.member_epoch, _size(member.assignment), _size(member.target_assignment))
            for member in group.members
        ):
            answer.extend(member)
        return answer


def _size(assignment: describe_messages.Assignment) -> int:
    return sum(len(topic.partitions) for topic in assignment.topic_partitions)
