"""OffsetDelete (API key 47).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class OffsetDeleteRequestPartition(Part, kw_only=True):
    """Part of OffsetDeleteRequest."""

    partition_index: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("partition_index", "int32", "0+"),)


class OffsetDeleteRequestTopic(Part, kw_only=True):
    """Part of OffsetDeleteRequest."""

    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", OffsetDeleteRequestPartition, "0+", array=True),
    )


class OffsetDeleteRequest(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 47
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)

    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("topics", OffsetDeleteRequestTopic, "0+", array=True),
    )


class OffsetDeleteResponsePartition(Part, kw_only=True):
    """Part of OffsetDeleteResponse."""

    partition_index: int = 0
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("error_code", "int16", "0+"),
    )


class OffsetDeleteResponseTopic(Part, kw_only=True):
    """Part of OffsetDeleteResponse."""

    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", OffsetDeleteResponsePartition, "0+", array=True),
    )


class OffsetDeleteResponse(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 47
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("throttle_time_ms", "int32", "0+"),
        Field("topics", OffsetDeleteResponseTopic, "0+", array=True),
    )
