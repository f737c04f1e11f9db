"""Produce (API key 0).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class PartitionProduceData(Part, kw_only=True):
    """Part of ProduceRequest."""

    index: int = 0
    records: bytes | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("index", "int32", "3+"),
        Field("records", "records", "3+", nullable="3+"),
    )


class TopicProduceData(Part, kw_only=True):
    """Part of ProduceRequest."""

    name: str = ""
    topic_id: UUID = NO_UUID
    partition_data: list[PartitionProduceData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "3-12"),
        Field("topic_id", "uuid", "13+"),
        Field("partition_data", PartitionProduceData, "3+", array=True),
    )


class ProduceRequest(Message, kw_only=True):
    """Versions 3 to 13."""

    API_KEY: ClassVar[int] = 0
    VERSIONS: ClassVar[tuple[int, int]] = (3, 13)
    FLEXIBLE_FROM: ClassVar[int] = 9

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[TopicProduceData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactional_id", "string", "3+", nullable="3+"),
        Field("acks", "int16", "3+"),
        Field("timeout_ms", "int32", "3+"),
        Field("topic_data", TopicProduceData, "3+", array=True),
    )


class BatchIndexAndErrorMessage(Part, kw_only=True):
    """Part of ProduceResponse."""

    batch_index: int = 0
    batch_index_error_message: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("batch_index", "int32", "8+"),
        Field("batch_index_error_message", "string", "8+", nullable="8+"),
    )


class LeaderIdAndEpoch(Part, kw_only=True):
    """Part of ProduceResponse."""

    leader_id: int = -1
    leader_epoch: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("leader_id", "int32", "10+"),
        Field("leader_epoch", "int32", "10+"),
    )


class PartitionProduceResponse(Part, kw_only=True):
    """Part of ProduceResponse."""

    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: list[BatchIndexAndErrorMessage] = field(default_factory=list)
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("index", "int32", "3+"),
        Field("error_code", "int16", "3+"),
        Field("base_offset", "int64", "3+"),
        Field("log_append_time_ms", "int64", "3+"),
        Field("log_start_offset", "int64", "5+"),
        Field("record_errors", BatchIndexAndErrorMessage, "8+", array=True),
        Field("error_message", "string", "8+", nullable="8+"),
        Field("current_leader", LeaderIdAndEpoch, "10+", tag=0),
    )


class TopicProduceResponse(Part, kw_only=True):
    """Part of ProduceResponse."""

    name: str = ""
    topic_id: UUID = NO_UUID
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "3-12"),
        Field("topic_id", "uuid", "13+"),
        Field("partition_responses", PartitionProduceResponse, "3+", array=True),
    )


class NodeEndpoint(Part, kw_only=True):
    """Part of ProduceResponse."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("node_id", "int32", "10+"),
        Field("host", "string", "10+"),
        Field("port", "int32", "10+"),
        Field("rack", "string", "10+", nullable="10+"),
    )


class ProduceResponse(Message, kw_only=True):
    """Versions 3 to 13."""

    API_KEY: ClassVar[int] = 0
    VERSIONS: ClassVar[tuple[int, int]] = (3, 13)
    FLEXIBLE_FROM: ClassVar[int] = 9

    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: int = 0
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("responses", TopicProduceResponse, "3+", array=True),
        Field("throttle_time_ms", "int32", "3+"),
        Field("node_endpoints", NodeEndpoint, "10+", array=True, tag=0),
    )
