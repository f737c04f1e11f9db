"""DescribeTopicPartitions (API key 75).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class TopicRequest(Part, kw_only=True):
    """Part of DescribeTopicPartitionsRequest."""

    name: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("name", "string", "0+"),)


class Cursor(Part, kw_only=True):
    """Part of DescribeTopicPartitionsRequest and DescribeTopicPartitionsResponse."""

    topic_name: str = ""
    partition_index: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_name", "string", "0+"),
        Field("partition_index", "int32", "0+"),
    )


class DescribeTopicPartitionsRequest(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 75
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    topics: list[TopicRequest] = field(default_factory=list)
    response_partition_limit: int = 2000
    cursor: Cursor | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", TopicRequest, "0+", array=True),
        Field("response_partition_limit", "int32", "0+"),
        Field("cursor", Cursor, "0+", nullable="0+"),
    )


class DescribeTopicPartitionsResponsePartition(Part, kw_only=True):
    """Part of DescribeTopicPartitionsResponse."""

    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = field(default_factory=list)
    isr_nodes: list[int] = field(default_factory=list)
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    offline_replicas: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("partition_index", "int32", "0+"),
        Field("leader_id", "int32", "0+"),
        Field("leader_epoch", "int32", "0+"),
        Field("replica_nodes", "int32", "0+", array=True),
        Field("isr_nodes", "int32", "0+", array=True),
        Field("eligible_leader_replicas", "int32", "0+", array=True, nullable="0+"),
        Field("last_known_elr", "int32", "0+", array=True, nullable="0+"),
        Field("offline_replicas", "int32", "0+", array=True),
    )


class DescribeTopicPartitionsResponseTopic(Part, kw_only=True):
    """Part of DescribeTopicPartitionsResponse."""

    error_code: int = 0
    name: str | None = ""
    topic_id: UUID = NO_UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default_factory=list)
    topic_authorized_operations: int = -2147483648

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("name", "string", "0+", nullable="0+"),
        Field("topic_id", "uuid", "0+"),
        Field("is_internal", "bool", "0+"),
        Field("partitions", DescribeTopicPartitionsResponsePartition, "0+", array=True),
        Field("topic_authorized_operations", "int32", "0+"),
    )


class DescribeTopicPartitionsResponse(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 75
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    throttle_time_ms: int = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: Cursor | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("topics", DescribeTopicPartitionsResponseTopic, "0+", array=True),
        Field("next_cursor", Cursor, "0+", nullable="0+"),
    )
