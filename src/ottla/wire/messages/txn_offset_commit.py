"""TxnOffsetCommit (API key 28).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class TxnOffsetCommitRequestPartition(Part, kw_only=True):
    """Part of TxnOffsetCommitRequest."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("committed_offset", "int64", "0+"),
        Field("committed_leader_epoch", "int32", "2+"),
        Field("committed_metadata", "string", "0+", nullable="0+"),
    )


class TxnOffsetCommitRequestTopic(Part, kw_only=True):
    """Part of TxnOffsetCommitRequest."""

    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", TxnOffsetCommitRequestPartition, "0+", array=True),
    )


class TxnOffsetCommitRequest(Message, kw_only=True):
    """Versions 0 to 5."""

    API_KEY: ClassVar[int] = 28
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int] = 3

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactional_id", "string", "0+"),
        Field("group_id", "string", "0+"),
        Field("producer_id", "int64", "0+"),
        Field("producer_epoch", "int16", "0+"),
        Field("generation_id", "int32", "3+"),
        Field("member_id", "string", "3+"),
        Field("group_instance_id", "string", "3+", nullable="3+"),
        Field("topics", TxnOffsetCommitRequestTopic, "0+", array=True),
    )


class TxnOffsetCommitResponsePartition(Part, kw_only=True):
    """Part of TxnOffsetCommitResponse."""

    partition_index: int = 0
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("error_code", "int16", "0+"),
    )


class TxnOffsetCommitResponseTopic(Part, kw_only=True):
    """Part of TxnOffsetCommitResponse."""

    name: str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", TxnOffsetCommitResponsePartition, "0+", array=True),
    )


class TxnOffsetCommitResponse(Message, kw_only=True):
    """Versions 0 to 5."""

    API_KEY: ClassVar[int] = 28
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int] = 3

    throttle_time_ms: int = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("topics", TxnOffsetCommitResponseTopic, "0+", array=True),
    )
