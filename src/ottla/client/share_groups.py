"""Share groups as an administrator sees them: members, start offsets, lag, records in flight.

Rules kept here:
1. Start offsets are altered and deleted only while a group has no members: the coordinator refuses
   it otherwise (NON_EMPTY_GROUP). They are deleted by topic, as in Kafka.
2. What is in flight is known to the leaders of partitions. Apache Kafka does not tell it: None.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.cluster import Client, TopicPartition
from ottla.client.coordinators import CoordinatorType, find_coordinator
from ottla.client.errors import check, error
from ottla.client.group_info import GroupInfo, MemberInfo
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from ottla.wire.messages.share_group_describe import (
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ottla.wire.share_in_flight import DescribeInFlightRequest, DescribeInFlightResponse

UNKNOWN = -1
NOT_A_SHARE_GROUP = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


class StartOffset(NamedTuple):
    """Where a share group is in a partition; None where that is not known (yet)."""

    offset: int | None
    lag: int | None
    in_flight: int | None


def describe_share_group(client: Client, group_id: str, coordinator: int) -> GroupInfo | None:
    """A share group; None where the group is of another kind, or is not there. One attempt."""
    request = ShareGroupDescribeRequest(group_ids=[group_id])
    try:
        reply = client.call(request, ShareGroupDescribeResponse, coordinator)
    except KafkaError as problem:
        if problem.code == ErrorCode.UNSUPPORTED_VERSION:
            return None
        raise
    (found,) = reply.groups
    if found.error_code in NOT_A_SHARE_GROUP:
        return None
    check(found.error_code, found.error_message, f"group {group_id}")
    return GroupInfo(
        group_id=group_id,
        type="share",
        protocol_type="share",
        state=found.group_state,
        assignor=found.assignor_name,
        epoch=found.group_epoch,
        coordinator=coordinator,
        members=sorted(_member(item) for item in found.members),
    )


def _member(item: Member) -> MemberInfo:
    reads = sorted(
        TopicPartition(topic.topic_name, index)
        for topic in item.assignment.topic_partitions
        for index in topic.partitions
    )
    return MemberInfo(
        item.member_id, None, item.client_id, item.client_host, item.member_epoch, reads, reads
    )


class ShareGroupAdmin:
    """Asks about the start offsets of share groups, and changes them, through a client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def start_offsets(self, group_id: str) -> dict[TopicPartition, StartOffset]:
        """Where a share group is in all partitions that it has state for."""
        group = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
        request = DescribeShareGroupOffsetsRequest(groups=[group])

        def attempt() -> dict[TopicPartition, StartOffset]:
            reply = self._client.call(
                request, DescribeShareGroupOffsetsResponse, self._coordinator(group_id)
            )
            (found,) = reply.groups
            check(found.error_code, found.error_message, f"group {group_id}")
            in_flight = self._in_flight(group_id)
            return {
                TopicPartition(topic.topic_name, item.partition_index): StartOffset(
                    _known(item.start_offset),
                    _known(item.lag),
                    in_flight.get((topic.topic_id, item.partition_index)),
                )
                for topic in found.topics
                for item in topic.partitions
                if not item.error_code
            }

        return dict(sorted(self._client.retry(attempt).items()))

    def _in_flight(self, group_id: str) -> dict[object, int]:
        """Records in flight by topic id and partition, as the leaders say."""
        group = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=[])
        request = DescribeInFlightRequest(groups=[group], in_flight=True)
        return {
            (item.topic_id, item.partition): item.records
            for broker in self._client.metadata([]).brokers
            for item in self._client.call(
                request, DescribeInFlightResponse, broker.node_id
            ).in_flight
        }

    def alter_start_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Let a share group without members go on elsewhere; one that is not there is created."""
        topics: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
        for (name, index), offset in offsets.items():
            topic = topics.setdefault(name, AlterShareGroupOffsetsRequestTopic(topic_name=name))
            topic.partitions.append(
                AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
            )
        request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=list(topics.values()))

        def attempt() -> None:
            reply = self._client.call(
                request, AlterShareGroupOffsetsResponse, self._coordinator(group_id)
            )
            _check_group(reply.error_code, reply.error_message, group_id)
            for topic in reply.responses:
                for item in topic.partitions:
                    about = f"partition {item.partition_index} of topic {topic.topic_name}"
                    check(item.error_code, item.error_message, f"group {group_id}, {about}")

        self._client.retry(attempt)

    def delete_start_offsets(
        self, group_id: str, topics: Iterable[str]
    ) -> dict[str, KafkaError | None]:
        """Forget where a share group is in topics; None, or what each fails with."""
        request = DeleteShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics],
        )

        def attempt() -> dict[str, KafkaError | None]:
            reply = self._client.call(
                request, DeleteShareGroupOffsetsResponse, self._coordinator(group_id)
            )
            _check_group(reply.error_code, reply.error_message, group_id)
            return {
                item.topic_name: (
                    error(item.error_code, item.error_message) if item.error_code else None
                )
                for item in reply.responses
            }

        return self._client.retry(attempt)

    def _coordinator(self, group_id: str) -> int:
        return find_coordinator(self._client, CoordinatorType.GROUP, group_id)


def _check_group(error_code: int, message: str | None, group_id: str) -> None:
    if error_code == ErrorCode.NON_EMPTY_GROUP:
        message = "it has members"
    check(error_code, message, f"group {group_id}")


def _known(number: int) -> int | None:
    return None if number == UNKNOWN else number
