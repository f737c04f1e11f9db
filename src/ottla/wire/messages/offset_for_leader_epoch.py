"""OffsetForLeaderEpoch (API key 23).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class OffsetForLeaderPartition(Part, kw_only=True):
    """Part of OffsetForLeaderEpochRequest."""

    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "2+"),
        Field("current_leader_epoch", "int32", "2+"),
        Field("leader_epoch", "int32", "2+"),
    )


class OffsetForLeaderTopic(Part, kw_only=True):
    """Part of OffsetForLeaderEpochRequest."""

    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "2+"),
        Field("partitions", OffsetForLeaderPartition, "2+", array=True),
    )


class OffsetForLeaderEpochRequest(Message, kw_only=True):
    """Versions 2 to 4."""

    API_KEY: ClassVar[int] = 23
    VERSIONS: ClassVar[tuple[int, int]] = (2, 4)
    FLEXIBLE_FROM: ClassVar[int] = 4

    replica_id: int = -2
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("replica_id", "int32", "3+"),
        Field("topics", OffsetForLeaderTopic, "2+", array=True),
    )


class EpochEndOffset(Part, kw_only=True):
    """Part of OffsetForLeaderEpochResponse."""

    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "2+"),
        Field("partition", "int32", "2+"),
        Field("leader_epoch", "int32", "2+"),
        Field("end_offset", "int64", "2+"),
    )


class OffsetForLeaderTopicResult(Part, kw_only=True):
    """Part of OffsetForLeaderEpochResponse."""

    topic: str = ""
    partitions: list[EpochEndOffset] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "2+"),
        Field("partitions", EpochEndOffset, "2+", array=True),
    )


class OffsetForLeaderEpochResponse(Message, kw_only=True):
    """Versions 2 to 4."""

    API_KEY: ClassVar[int] = 23
    VERSIONS: ClassVar[tuple[int, int]] = (2, 4)
    FLEXIBLE_FROM: ClassVar[int] = 4

    throttle_time_ms: int = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "2+"),
        Field("topics", OffsetForLeaderTopicResult, "2+", array=True),
    )
