"""DescribeProducers (API key 61).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class TopicRequest(Part, kw_only=True):
    """Part of DescribeProducersRequest."""

    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partition_indexes", "int32", "0+", array=True),
    )


class DescribeProducersRequest(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 61
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    topics: list[TopicRequest] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("topics", TopicRequest, "0+", array=True),)


class ProducerState(Part, kw_only=True):
    """Part of DescribeProducersResponse."""

    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("producer_id", "int64", "0+"),
        Field("producer_epoch", "int32", "0+"),
        Field("last_sequence", "int32", "0+"),
        Field("last_timestamp", "int64", "0+"),
        Field("coordinator_epoch", "int32", "0+"),
        Field("current_txn_start_offset", "int64", "0+"),
    )


class PartitionResponse(Part, kw_only=True):
    """Part of DescribeProducersResponse."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("active_producers", ProducerState, "0+", array=True),
    )


class TopicResponse(Part, kw_only=True):
    """Part of DescribeProducersResponse."""

    name: str = ""
    partitions: list[PartitionResponse] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", PartitionResponse, "0+", array=True),
    )


class DescribeProducersResponse(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 61
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    throttle_time_ms: int = 0
    topics: list[TopicResponse] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("topics", TopicResponse, "0+", array=True),
    )
