"""Groups as an administrator sees them: who is in them, and what they have committed.

Rules kept here:
1. Each method is one question or one change; it is retried where Kafka's error says so, and the
   coordinator is looked up again each time.
2. A group is described by the API of its own protocol: the consumer protocol of KIP-848 is asked
   first, then share groups, and the classic one answers for all others.
3. Topics are named, not numbered by id: OffsetFetch and OffsetCommit stay below version 10, so
   that offsets of deleted topics can still be shown.
4. An administrator commits as a member of nothing (generation -1), which a coordinator only allows
   while the group has no members.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.client.cluster import Client, TopicPartition
from ottla.client.coordinators import CoordinatorType, find_coordinator
from ottla.client.errors import check, error
from ottla.client.group_info import GroupInfo, MemberInfo
from ottla.client.share_groups import describe_share_group
from ottla.coordinator.consumer.protocol import PROTOCOL_TYPE, read_assignment
from ottla.wire.codec import DecodeError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_describe import Assignment as ConsumerAssignment
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
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
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

LAST_WITH_TOPIC_NAMES = 9
NO_OFFSET = -1


class GroupListing(NamedTuple):
    """A group in a list; its type is "classic", "consumer", "share" (or another of Kafka's)."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class CommittedOffset(NamedTuple):
    """The next offset that a group will read in a partition; the leader epoch is -1 if unknown."""

    offset: int
    leader_epoch: int
    metadata: str


class UnknownGroup(KafkaError):  # noqa: N818 (it names what happened)
    """There is no such group that consumes."""

    def __init__(self, group_id: str) -> None:
        super().__init__(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id}")


class GroupAdmin:
    """Asks about groups, and changes them, through a client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> list[GroupListing]:
        """All groups by id, or those in some states and of some types."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

        def attempt() -> list[GroupListing]:
            found: set[GroupListing] = set()
            for broker in self._client.metadata([]).brokers:
                reply = self._client.call(request, ListGroupsResponse, broker.node_id)
                check(reply.error_code, None, f"groups of broker {broker.node_id}")
                found.update(
                    GroupListing(
                        item.group_id, item.protocol_type, item.group_state, item.group_type
                    )
                    for item in reply.groups
                )
            return sorted(found)

        return self._client.retry(attempt)

    def describe_group(self, group_id: str) -> GroupInfo:
        """A group and its members; UnknownGroup where there is none."""

        def attempt() -> GroupInfo:
            coordinator = self._coordinator(group_id)
            found = self._describe_consumer_group(group_id, coordinator)
            found = found or describe_share_group(self._client, group_id, coordinator)
            return found or self._describe_classic_group(group_id, coordinator)

        return self._client.retry(attempt)

    def committed_offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """All that a group has committed; nothing where there is no such group."""
        request = OffsetFetchRequest(
            group_id=group_id,
            topics=None,
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)],
        )

        def attempt() -> dict[TopicPartition, CommittedOffset]:
            reply = self._client.call(
                request,
                OffsetFetchResponse,
                self._coordinator(group_id),
                newest=LAST_WITH_TOPIC_NAMES,
            )
            check(reply.error_code, None, f"group {group_id}")
            topics: list[OffsetFetchResponseTopic | OffsetFetchResponseTopics] = [*reply.topics]
            for group in reply.groups:
                check(group.error_code, None, f"group {group_id}")
                topics += group.topics
            found = {}
            for topic in topics:
                for item in topic.partitions:
                    where = TopicPartition(topic.name, item.partition_index)
                    _check_partition(item.error_code, group_id, where)
                    if item.committed_offset != NO_OFFSET:
                        found[where] = CommittedOffset(
                            item.committed_offset, item.committed_leader_epoch, item.metadata or ""
                        )
            return dict(sorted(found.items()))

        return self._client.retry(attempt)

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group that has no members (it is created where there is none)."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, index), offset in offsets.items():
            topics.setdefault(name, OffsetCommitRequestTopic(name=name)).partitions.append(
                OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            )
        request = OffsetCommitRequest(group_id=group_id, topics=list(topics.values()))

        def attempt() -> None:
            reply = self._client.call(
                request,
                OffsetCommitResponse,
                self._coordinator(group_id),
                newest=LAST_WITH_TOPIC_NAMES,
            )
            for topic in reply.topics:
                for item in topic.partitions:
                    where = TopicPartition(topic.name, item.partition_index)
                    _check_partition(item.error_code, group_id, where)

        self._client.retry(attempt)

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, with all that it has committed."""
        request = DeleteGroupsRequest(groups_names=[group_id])

        def attempt() -> None:
            reply = self._client.call(request, DeleteGroupsResponse, self._coordinator(group_id))
            for item in reply.results:
                _check_group(item.error_code, group_id)

        self._client.retry(attempt)

    def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete what a group has committed for some partitions; None, or what each fails with.

        A topic that a member has subscribed to is GROUP_SUBSCRIBED_TO_TOPIC.
        """
        topics: dict[str, OffsetDeleteRequestTopic] = {}
        for name, index in partitions:
            topics.setdefault(name, OffsetDeleteRequestTopic(name=name)).partitions.append(
                OffsetDeleteRequestPartition(partition_index=index)
            )
        request = OffsetDeleteRequest(group_id=group_id, topics=list(topics.values()))

        def attempt() -> dict[TopicPartition, KafkaError | None]:
            reply = self._client.call(request, OffsetDeleteResponse, self._coordinator(group_id))
            _check_group(reply.error_code, group_id)
            return {
                TopicPartition(topic.name, item.partition_index): (
                    error(item.error_code) if item.error_code else None
                )
                for topic in reply.topics
                for item in topic.partitions
            }

        return self._client.retry(attempt)

    def _coordinator(self, group_id: str) -> int:
        return find_coordinator(self._client, CoordinatorType.GROUP, group_id)

    def _describe_consumer_group(self, group_id: str, coordinator: int) -> GroupInfo | None:
        """None where the group has the classic protocol, or is not there at all."""
        request = ConsumerGroupDescribeRequest(group_ids=[group_id])
        try:
            reply = self._client.call(request, ConsumerGroupDescribeResponse, coordinator)
        except KafkaError as problem:
            if problem.code == ErrorCode.UNSUPPORTED_VERSION:
                return None
            raise
        (found,) = reply.groups
        if found.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            return None
        check(found.error_code, found.error_message, f"group {group_id}")
        return _consumer_group(found, coordinator)

    def _describe_classic_group(self, group_id: str, coordinator: int) -> GroupInfo:
        request = DescribeGroupsRequest(groups=[group_id])
        (found,) = self._client.call(request, DescribeGroupsResponse, coordinator).groups
        _check_group(found.error_code, group_id, found.error_message)
        if found.group_state == "Dead":
            # What version 5 and below say of a group that is not there.
            raise UnknownGroup(group_id)
        return _classic_group(found, coordinator)


def _check_group(error_code: int, group_id: str, message: str | None = None) -> None:
    if error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise UnknownGroup(group_id)
    if error_code == ErrorCode.NON_EMPTY_GROUP:
        message = "it has members"
    check(error_code, message, f"group {group_id}")


def _check_partition(error_code: int, group_id: str, where: TopicPartition) -> None:
    message = None
    if error_code == ErrorCode.UNKNOWN_MEMBER_ID:
        message = "it has members, and only they may commit"
    about = f"group {group_id}, partition {where.partition} of topic {where.topic}"
    if error_code:
        raise error(error_code, message, about)


def _consumer_group(found: ConsumerGroup, coordinator: int) -> GroupInfo:
    members = [
        MemberInfo(
            item.member_id,
            item.instance_id,
            item.client_id,
            item.client_host,
            item.member_epoch,
            _consumer_assignment(item.assignment),
            _consumer_assignment(item.target_assignment),
        )
        for item in found.members
    ]
    return GroupInfo(
        group_id=found.group_id,
        type="consumer",
        protocol_type=PROTOCOL_TYPE,
        state=found.group_state,
        assignor=found.assignor_name,
        epoch=found.group_epoch,
        coordinator=coordinator,
        members=sorted(members),
    )


def _classic_group(found: DescribedGroup, coordinator: int) -> GroupInfo:
    members = []
    for item in found.members:
        assignment = _classic_assignment(found.protocol_type, item.member_assignment)
        members.append(
            MemberInfo(
                item.member_id,
                item.group_instance_id,
                item.client_id,
                item.client_host,
                None,
                assignment,
                assignment,
            )
        )
    return GroupInfo(
        group_id=found.group_id,
        type="classic",
        protocol_type=found.protocol_type,
        state=found.group_state,
        assignor=found.protocol_data,
        epoch=None,
        coordinator=coordinator,
        members=sorted(members),
    )


def _consumer_assignment(assignment: ConsumerAssignment) -> list[TopicPartition]:
    return sorted(
        TopicPartition(topic.topic_name, index)
        for topic in assignment.topic_partitions
        for index in topic.partitions
    )


def _classic_assignment(protocol_type: str, data: bytes) -> list[TopicPartition]:
    """Only consumers write down partitions; what others assign is their own affair."""
    if protocol_type != PROTOCOL_TYPE or not data:
        return []
    try:
        assigned = read_assignment(data).assigned_partitions
    except DecodeError:
        return []
    return sorted(
        TopicPartition(item.topic, index) for item in assigned for index in item.partitions
    )
