"""ReadShareGroupStateSummary (API key 87).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class PartitionData(Part, kw_only=True):
    """Part of ReadShareGroupStateSummaryRequest."""

    partition: int = 0
    leader_epoch: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("leader_epoch", "int32", "0+"),
    )


class ReadStateSummaryData(Part, kw_only=True):
    """Part of ReadShareGroupStateSummaryRequest."""

    topic_id: UUID = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", PartitionData, "0+", array=True),
    )


class ReadShareGroupStateSummaryRequest(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 87
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 0

    group_id: str = ""
    topics: list[ReadStateSummaryData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("topics", ReadStateSummaryData, "0+", array=True),
    )


class PartitionResult(Part, kw_only=True):
    """Part of ReadShareGroupStateSummaryResponse."""

    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("state_epoch", "int32", "0+"),
        Field("leader_epoch", "int32", "0+"),
        Field("start_offset", "int64", "0+"),
        Field("delivery_complete_count", "int32", "1+"),
    )


class ReadStateSummaryResult(Part, kw_only=True):
    """Part of ReadShareGroupStateSummaryResponse."""

    topic_id: UUID = NO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", PartitionResult, "0+", array=True),
    )


class ReadShareGroupStateSummaryResponse(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 87
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 0

    results: list[ReadStateSummaryResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("results", ReadStateSummaryResult, "0+", array=True),
    )
