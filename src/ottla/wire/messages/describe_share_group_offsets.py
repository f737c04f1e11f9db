"""DescribeShareGroupOffsets (API key 90).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class DescribeShareGroupOffsetsRequestTopic(Part, kw_only=True):
    """Part of DescribeShareGroupOffsetsRequest."""

    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_name", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class DescribeShareGroupOffsetsRequestGroup(Part, kw_only=True):
    """Part of DescribeShareGroupOffsetsRequest."""

    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("topics", DescribeShareGroupOffsetsRequestTopic, "0+", array=True, nullable="0+"),
    )


class DescribeShareGroupOffsetsRequest(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 90
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 0

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("groups", DescribeShareGroupOffsetsRequestGroup, "0+", array=True),
    )


class DescribeShareGroupOffsetsResponsePartition(Part, kw_only=True):
    """Part of DescribeShareGroupOffsetsResponse."""

    partition_index: int = 0
    start_offset: int = 0
    leader_epoch: int = 0
    lag: int = -1
    error_code: int = 0
    error_message: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("start_offset", "int64", "0+"),
        Field("leader_epoch", "int32", "0+"),
        Field("lag", "int64", "1+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class DescribeShareGroupOffsetsResponseTopic(Part, kw_only=True):
    """Part of DescribeShareGroupOffsetsResponse."""

    topic_name: str = ""
    topic_id: UUID = NO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_name", "string", "0+"),
        Field("topic_id", "uuid", "0+"),
        Field("partitions", DescribeShareGroupOffsetsResponsePartition, "0+", array=True),
    )


class DescribeShareGroupOffsetsResponseGroup(Part, kw_only=True):
    """Part of DescribeShareGroupOffsetsResponse."""

    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(default_factory=list)
    error_code: int = 0
    error_message: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("topics", DescribeShareGroupOffsetsResponseTopic, "0+", array=True),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class DescribeShareGroupOffsetsResponse(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 90
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 0

    throttle_time_ms: int = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("groups", DescribeShareGroupOffsetsResponseGroup, "0+", array=True),
    )
