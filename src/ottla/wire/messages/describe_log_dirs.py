"""DescribeLogDirs (API key 35).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class DescribableLogDirTopic(Part, kw_only=True):
    """Part of DescribeLogDirsRequest."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "1+"),
        Field("partitions", "int32", "1+", array=True),
    )


class DescribeLogDirsRequest(Message, kw_only=True):
    """Versions 1 to 5."""

    API_KEY: ClassVar[int] = 35
    VERSIONS: ClassVar[tuple[int, int]] = (1, 5)
    FLEXIBLE_FROM: ClassVar[int] = 2

    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", DescribableLogDirTopic, "1+", array=True, nullable="1+"),
    )


class DescribeLogDirsPartition(Part, kw_only=True):
    """Part of DescribeLogDirsResponse."""

    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "1+"),
        Field("partition_size", "int64", "1+"),
        Field("offset_lag", "int64", "1+"),
        Field("is_future_key", "bool", "1+"),
    )


class DescribeLogDirsTopic(Part, kw_only=True):
    """Part of DescribeLogDirsResponse."""

    name: str = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "1+"),
        Field("partitions", DescribeLogDirsPartition, "1+", array=True),
    )


class DescribeLogDirsResult(Part, kw_only=True):
    """Part of DescribeLogDirsResponse."""

    error_code: int = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "1+"),
        Field("log_dir", "string", "1+"),
        Field("topics", DescribeLogDirsTopic, "1+", array=True),
        Field("total_bytes", "int64", "4+"),
        Field("usable_bytes", "int64", "4+"),
        Field("is_cordoned", "bool", "5+"),
    )


class DescribeLogDirsResponse(Message, kw_only=True):
    """Versions 1 to 5."""

    API_KEY: ClassVar[int] = 35
    VERSIONS: ClassVar[tuple[int, int]] = (1, 5)
    FLEXIBLE_FROM: ClassVar[int] = 2

    throttle_time_ms: int = 0
    error_code: int = 0
    results: list[DescribeLogDirsResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("error_code", "int16", "3+"),
        Field("results", DescribeLogDirsResult, "1+", array=True),
    )
