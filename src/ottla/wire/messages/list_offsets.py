"""ListOffsets (API key 2).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class ListOffsetsPartition(Part, kw_only=True):
    """Part of ListOffsetsRequest."""

    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "1+"),
        Field("current_leader_epoch", "int32", "4+"),
        Field("timestamp", "int64", "1+"),
    )


class ListOffsetsTopic(Part, kw_only=True):
    """Part of ListOffsetsRequest."""

    name: str = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "1+"),
        Field("partitions", ListOffsetsPartition, "1+", array=True),
    )


class ListOffsetsRequest(Message, kw_only=True):
    """Versions 1 to 11."""

    API_KEY: ClassVar[int] = 2
    VERSIONS: ClassVar[tuple[int, int]] = (1, 11)
    FLEXIBLE_FROM: ClassVar[int] = 6

    replica_id: int = 0
    isolation_level: int = 0
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("replica_id", "int32", "1+"),
        Field("isolation_level", "int8", "2+"),
        Field("topics", ListOffsetsTopic, "1+", array=True),
        Field("timeout_ms", "int32", "10+"),
    )


class ListOffsetsPartitionResponse(Part, kw_only=True):
    """Part of ListOffsetsResponse."""

    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "1+"),
        Field("error_code", "int16", "1+"),
        Field("timestamp", "int64", "1+"),
        Field("offset", "int64", "1+"),
        Field("leader_epoch", "int32", "4+"),
    )


class ListOffsetsTopicResponse(Part, kw_only=True):
    """Part of ListOffsetsResponse."""

    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "1+"),
        Field("partitions", ListOffsetsPartitionResponse, "1+", array=True),
    )


class ListOffsetsResponse(Message, kw_only=True):
    """Versions 1 to 11."""

    API_KEY: ClassVar[int] = 2
    VERSIONS: ClassVar[tuple[int, int]] = (1, 11)
    FLEXIBLE_FROM: ClassVar[int] = 6

    throttle_time_ms: int = 0
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "2+"),
        Field("topics", ListOffsetsTopicResponse, "1+", array=True),
    )
