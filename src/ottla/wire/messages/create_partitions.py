"""CreatePartitions (API key 37).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class CreatePartitionsAssignment(Part, kw_only=True):
    """Part of CreatePartitionsRequest."""

    broker_ids: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("broker_ids", "int32", "0+", array=True),)


class CreatePartitionsTopic(Part, kw_only=True):
    """Part of CreatePartitionsRequest."""

    name: str = ""
    count: int = 0
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("count", "int32", "0+"),
        Field("assignments", CreatePartitionsAssignment, "0+", array=True, nullable="0+"),
    )


class CreatePartitionsRequest(Message, kw_only=True):
    """Versions 0 to 3."""

    API_KEY: ClassVar[int] = 37
    VERSIONS: ClassVar[tuple[int, int]] = (0, 3)
    FLEXIBLE_FROM: ClassVar[int] = 2

    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: int = 0
    validate_only: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", CreatePartitionsTopic, "0+", array=True),
        Field("timeout_ms", "int32", "0+"),
        Field("validate_only", "bool", "0+"),
    )


class CreatePartitionsTopicResult(Part, kw_only=True):
    """Part of CreatePartitionsResponse."""

    name: str = ""
    error_code: int = 0
    error_message: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class CreatePartitionsResponse(Message, kw_only=True):
    """Versions 0 to 3."""

    API_KEY: ClassVar[int] = 37
    VERSIONS: ClassVar[tuple[int, int]] = (0, 3)
    FLEXIBLE_FROM: ClassVar[int] = 2

    throttle_time_ms: int = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("results", CreatePartitionsTopicResult, "0+", array=True),
    )
