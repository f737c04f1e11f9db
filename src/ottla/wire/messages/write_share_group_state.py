"""WriteShareGroupState (API key 85).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class StateBatch(Part, kw_only=True):
    """Part of WriteShareGroupStateRequest."""

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


class PartitionData(Part, kw_only=True):
    """Part of WriteShareGroupStateRequest."""

    partition: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1
    state_batches: list[StateBatch] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("state_epoch", "int32", "0+"),
        Field("leader_epoch", "int32", "0+"),
        Field("start_offset", "int64", "0+"),
        Field("delivery_complete_count", "int32", "1+"),
        Field("state_batches", StateBatch, "0+", array=True),
    )


class WriteStateData(Part, kw_only=True):
    """Part of WriteShareGroupStateRequest."""

    topic_id: UUID = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", PartitionData, "0+", array=True),
    )


class WriteShareGroupStateRequest(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 85
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 0

    group_id: str = ""
    topics: list[WriteStateData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("topics", WriteStateData, "0+", array=True),
    )


class PartitionResult(Part, kw_only=True):
    """Part of WriteShareGroupStateResponse."""

    partition: int = 0
    error_code: int = 0
    error_message: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class WriteStateResult(Part, kw_only=True):
    """Part of WriteShareGroupStateResponse."""

    topic_id: UUID = NO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", PartitionResult, "0+", array=True),
    )


class WriteShareGroupStateResponse(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 85
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 0

    results: list[WriteStateResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("results", WriteStateResult, "0+", array=True),)
