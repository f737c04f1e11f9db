"""ShareAcknowledge (API key 79).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class AcknowledgementBatch(Part, kw_only=True):
    """Part of ShareAcknowledgeRequest."""

    first_offset: int = 0
    last_offset: int = 0
    acknowledge_types: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("first_offset", "int64", "1+"),
        Field("last_offset", "int64", "1+"),
        Field("acknowledge_types", "int8", "1+", array=True),
    )


class AcknowledgePartition(Part, kw_only=True):
    """Part of ShareAcknowledgeRequest."""

    partition_index: int = 0
    acknowledgement_batches: list[AcknowledgementBatch] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "1+"),
        Field("acknowledgement_batches", AcknowledgementBatch, "1+", array=True),
    )


class AcknowledgeTopic(Part, kw_only=True):
    """Part of ShareAcknowledgeRequest."""

    topic_id: UUID = NO_UUID
    partitions: list[AcknowledgePartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "1+"),
        Field("partitions", AcknowledgePartition, "1+", array=True),
    )


class ShareAcknowledgeRequest(Message, kw_only=True):
    """Versions 1 to 2."""

    API_KEY: ClassVar[int] = 79
    VERSIONS: ClassVar[tuple[int, int]] = (1, 2)
    FLEXIBLE_FROM: ClassVar[int] = 1

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    is_renew_ack: bool = False
    topics: list[AcknowledgeTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "1+", nullable="1+"),
        Field("member_id", "string", "1+", nullable="1+"),
        Field("share_session_epoch", "int32", "1+"),
        Field("is_renew_ack", "bool", "2+"),
        Field("topics", AcknowledgeTopic, "1+", array=True),
    )


class LeaderIdAndEpoch(Part, kw_only=True):
    """Part of ShareAcknowledgeResponse."""

    leader_id: int = 0
    leader_epoch: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("leader_id", "int32", "1+"),
        Field("leader_epoch", "int32", "1+"),
    )


class PartitionData(Part, kw_only=True):
    """Part of ShareAcknowledgeResponse."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "1+"),
        Field("error_code", "int16", "1+"),
        Field("error_message", "string", "1+", nullable="1+"),
        Field("current_leader", LeaderIdAndEpoch, "1+"),
    )


class ShareAcknowledgeTopicResponse(Part, kw_only=True):
    """Part of ShareAcknowledgeResponse."""

    topic_id: UUID = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "1+"),
        Field("partitions", PartitionData, "1+", array=True),
    )


class NodeEndpoint(Part, kw_only=True):
    """Part of ShareAcknowledgeResponse."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("node_id", "int32", "1+"),
        Field("host", "string", "1+"),
        Field("port", "int32", "1+"),
        Field("rack", "string", "1+", nullable="1+"),
    )


class ShareAcknowledgeResponse(Message, kw_only=True):
    """Versions 1 to 2."""

    API_KEY: ClassVar[int] = 79
    VERSIONS: ClassVar[tuple[int, int]] = (1, 2)
    FLEXIBLE_FROM: ClassVar[int] = 1

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[ShareAcknowledgeTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("error_code", "int16", "1+"),
        Field("error_message", "string", "1+", nullable="1+"),
        Field("acquisition_lock_timeout_ms", "int32", "2+"),
        Field("responses", ShareAcknowledgeTopicResponse, "1+", array=True),
        Field("node_endpoints", NodeEndpoint, "1+", array=True),
    )
