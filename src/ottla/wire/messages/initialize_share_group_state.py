"""InitializeShareGroupState (API key 83).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class PartitionData(Part, kw_only=True):
    """Part of InitializeShareGroupStateRequest."""

    partition: int = 0
    state_epoch: int = 0
    start_offset: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("state_epoch", "int32", "0+"),
        Field("start_offset", "int64", "0+"),
    )


class InitializeStateData(Part, kw_only=True):
    """Part of InitializeShareGroupStateRequest."""

    topic_id: UUID = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", PartitionData, "0+", array=True),
    )


class InitializeShareGroupStateRequest(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 83
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    group_id: str = ""
    topics: list[InitializeStateData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("topics", InitializeStateData, "0+", array=True),
    )


class PartitionResult(Part, kw_only=True):
    """Part of InitializeShareGroupStateResponse."""

    partition: int = 0
    error_code: int = 0
    error_message: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class InitializeStateResult(Part, kw_only=True):
    """Part of InitializeShareGroupStateResponse."""

    topic_id: UUID = NO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", PartitionResult, "0+", array=True),
    )


class InitializeShareGroupStateResponse(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 83
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    results: list[InitializeStateResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("results", InitializeStateResult, "0+", array=True),
    )
