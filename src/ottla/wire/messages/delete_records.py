"""DeleteRecords (API key 21).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class DeleteRecordsPartition(Part, kw_only=True):
    """Part of DeleteRecordsRequest."""

    partition_index: int = 0
    offset: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("offset", "int64", "0+"),
    )


class DeleteRecordsTopic(Part, kw_only=True):
    """Part of DeleteRecordsRequest."""

    name: str = ""
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", DeleteRecordsPartition, "0+", array=True),
    )


class DeleteRecordsRequest(Message, kw_only=True):
    """Versions 0 to 2."""

    API_KEY: ClassVar[int] = 21
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int] = 2

    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", DeleteRecordsTopic, "0+", array=True),
        Field("timeout_ms", "int32", "0+"),
    )


class DeleteRecordsPartitionResult(Part, kw_only=True):
    """Part of DeleteRecordsResponse."""

    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("low_watermark", "int64", "0+"),
        Field("error_code", "int16", "0+"),
    )


class DeleteRecordsTopicResult(Part, kw_only=True):
    """Part of DeleteRecordsResponse."""

    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", DeleteRecordsPartitionResult, "0+", array=True),
    )


class DeleteRecordsResponse(Message, kw_only=True):
    """Versions 0 to 2."""

    API_KEY: ClassVar[int] = 21
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int] = 2

    throttle_time_ms: int = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("topics", DeleteRecordsTopicResult, "0+", array=True),
    )
