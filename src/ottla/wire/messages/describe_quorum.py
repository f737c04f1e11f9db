"""DescribeQuorum (API key 55).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class DescribeQuorumRequestPartitionData(Part, kw_only=True):
    """Part of DescribeQuorumRequest."""

    partition_index: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("partition_index", "int32", "0+"),)


class DescribeQuorumRequestTopicData(Part, kw_only=True):
    """Part of DescribeQuorumRequest."""

    topic_name: str = ""
    partitions: list[DescribeQuorumRequestPartitionData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_name", "string", "0+"),
        Field("partitions", DescribeQuorumRequestPartitionData, "0+", array=True),
    )


class DescribeQuorumRequest(Message, kw_only=True):
    """Versions 0 to 2."""

    API_KEY: ClassVar[int] = 55
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int] = 0

    topics: list[DescribeQuorumRequestTopicData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", DescribeQuorumRequestTopicData, "0+", array=True),
    )


class ReplicaState(Part, kw_only=True):
    """Part of DescribeQuorumResponse."""

    replica_id: int = 0
    replica_directory_id: UUID = NO_UUID
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("replica_id", "int32", "0+"),
        Field("replica_directory_id", "uuid", "2+"),
        Field("log_end_offset", "int64", "0+"),
        Field("last_fetch_timestamp", "int64", "1+"),
        Field("last_caught_up_timestamp", "int64", "1+"),
    )


class DescribeQuorumResponsePartitionData(Part, kw_only=True):
    """Part of DescribeQuorumResponse."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: list[ReplicaState] = field(default_factory=list)
    observers: list[ReplicaState] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "2+", nullable="2+"),
        Field("leader_id", "int32", "0+"),
        Field("leader_epoch", "int32", "0+"),
        Field("high_watermark", "int64", "0+"),
        Field("current_voters", ReplicaState, "0+", array=True),
        Field("observers", ReplicaState, "0+", array=True),
    )


class DescribeQuorumResponseTopicData(Part, kw_only=True):
    """Part of DescribeQuorumResponse."""

    topic_name: str = ""
    partitions: list[DescribeQuorumResponsePartitionData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_name", "string", "0+"),
        Field("partitions", DescribeQuorumResponsePartitionData, "0+", array=True),
    )


class Listener(Part, kw_only=True):
    """Part of DescribeQuorumResponse."""

    name: str = ""
    host: str = ""
    port: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "2+"),
        Field("host", "string", "2+"),
        Field("port", "uint16", "2+"),
    )


class Node(Part, kw_only=True):
    """Part of DescribeQuorumResponse."""

    node_id: int = 0
    listeners: list[Listener] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("node_id", "int32", "2+"),
        Field("listeners", Listener, "2+", array=True),
    )


class DescribeQuorumResponse(Message, kw_only=True):
    """Versions 0 to 2."""

    API_KEY: ClassVar[int] = 55
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int] = 0

    error_code: int = 0
    error_message: str | None = ""
    topics: list[DescribeQuorumResponseTopicData] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "2+", nullable="2+"),
        Field("topics", DescribeQuorumResponseTopicData, "0+", array=True),
        Field("nodes", Node, "2+", array=True),
    )
