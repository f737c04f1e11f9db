"""AlterShareGroupOffsets (API key 91).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class AlterShareGroupOffsetsRequestPartition(Part, kw_only=True):
    """Part of AlterShareGroupOffsetsRequest."""

    partition_index: int = 0
    start_offset: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("start_offset", "int64", "0+"),
    )


class AlterShareGroupOffsetsRequestTopic(Part, kw_only=True):
    """Part of AlterShareGroupOffsetsRequest."""

    topic_name: str = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_name", "string", "0+"),
        Field("partitions", AlterShareGroupOffsetsRequestPartition, "0+", array=True),
    )


class AlterShareGroupOffsetsRequest(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 91
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    group_id: str = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("topics", AlterShareGroupOffsetsRequestTopic, "0+", array=True),
    )


class AlterShareGroupOffsetsResponsePartition(Part, kw_only=True):
    """Part of AlterShareGroupOffsetsResponse."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class AlterShareGroupOffsetsResponseTopic(Part, kw_only=True):
    """Part of AlterShareGroupOffsetsResponse."""

    topic_name: str = ""
    topic_id: UUID = NO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_name", "string", "0+"),
        Field("topic_id", "uuid", "0+"),
        Field("partitions", AlterShareGroupOffsetsResponsePartition, "0+", array=True),
    )


class AlterShareGroupOffsetsResponse(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 91
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("responses", AlterShareGroupOffsetsResponseTopic, "0+", array=True),
    )
