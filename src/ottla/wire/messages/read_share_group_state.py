"""ReadShareGroupState (API key 84).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class PartitionData(Part, kw_only=True):
    """Part of ReadShareGroupStateRequest."""

    partition: int = 0
    leader_epoch: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("leader_epoch", "int32", "0+"),
    )


class ReadStateData(Part, kw_only=True):
    """Part of ReadShareGroupStateRequest."""

    topic_id: UUID = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", PartitionData, "0+", array=True),
    )


class ReadShareGroupStateRequest(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 84
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    group_id: str = ""
    topics: list[ReadStateData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("topics", ReadStateData, "0+", array=True),
    )


class StateBatch(Part, kw_only=True):
    """Part of ReadShareGroupStateResponse."""

    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("first_offset", "int64", "0+"),
        Field("last_offset", "int64", "0+"),
        Field("delivery_state", "int8", "0+"),
        Field("delivery_count", "int16", "0+"),
    )


class PartitionResult(Part, kw_only=True):
    """Part of ReadShareGroupStateResponse."""

    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    start_offset: int = 0
    state_batches: list[StateBatch] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("state_epoch", "int32", "0+"),
        Field("start_offset", "int64", "0+"),
        Field("state_batches", StateBatch, "0+", array=True),
    )


class ReadStateResult(Part, kw_only=True):
    """Part of ReadShareGroupStateResponse."""

    topic_id: UUID = NO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", PartitionResult, "0+", array=True),
    )


class ReadShareGroupStateResponse(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 84
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    results: list[ReadStateResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("results", ReadStateResult, "0+", array=True),)
