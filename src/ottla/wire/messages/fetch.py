"""Fetch (API key 1).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class ReplicaState(Part, kw_only=True):
    """Part of FetchRequest."""

    replica_id: int = -1
    replica_epoch: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("replica_id", "int32", "15+"),
        Field("replica_epoch", "int64", "15+"),
    )


class FetchPartition(Part, kw_only=True):
    """Part of FetchRequest."""

    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: UUID = NO_UUID
    high_watermark: int = 9223372036854775807

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "4+"),
        Field("current_leader_epoch", "int32", "9+"),
        Field("fetch_offset", "int64", "4+"),
        Field("last_fetched_epoch", "int32", "12+"),
        Field("log_start_offset", "int64", "5+"),
        Field("partition_max_bytes", "int32", "4+"),
        Field("replica_directory_id", "uuid", "17+", tag=0),
        Field("high_watermark", "int64", "18+", tag=1),
    )


class FetchTopic(Part, kw_only=True):
    """Part of FetchRequest."""

    topic: str = ""
    topic_id: UUID = NO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "4-12"),
        Field("topic_id", "uuid", "13+"),
        Field("partitions", FetchPartition, "4+", array=True),
    )


class ForgottenTopic(Part, kw_only=True):
    """Part of FetchRequest."""

    topic: str = ""
    topic_id: UUID = NO_UUID
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "7-12"),
        Field("topic_id", "uuid", "13+"),
        Field("partitions", "int32", "7+", array=True),
    )


class FetchRequest(Message, kw_only=True):
    """Versions 4 to 18."""

    API_KEY: ClassVar[int] = 1
    VERSIONS: ClassVar[tuple[int, int]] = (4, 18)
    FLEXIBLE_FROM: ClassVar[int] = 12

    cluster_id: str | None = None
    replica_id: int = -1
    replica_state: ReplicaState = field(default_factory=ReplicaState)
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)
    rack_id: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("cluster_id", "string", "12+", nullable="12+", tag=0),
        Field("replica_id", "int32", "4-14"),
        Field("replica_state", ReplicaState, "15+", tag=1),
        Field("max_wait_ms", "int32", "4+"),
        Field("min_bytes", "int32", "4+"),
        Field("max_bytes", "int32", "4+"),
        Field("isolation_level", "int8", "4+"),
        Field("session_id", "int32", "7+"),
        Field("session_epoch", "int32", "7+"),
        Field("topics", FetchTopic, "4+", array=True),
        Field("forgotten_topics_data", ForgottenTopic, "7+", array=True),
        Field("rack_id", "string", "11+"),
    )


class EpochEndOffset(Part, kw_only=True):
    """Part of FetchResponse."""

    epoch: int = -1
    end_offset: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", "12+"),
        Field("end_offset", "int64", "12+"),
    )


class LeaderIdAndEpoch(Part, kw_only=True):
    """Part of FetchResponse."""

    leader_id: int = -1
    leader_epoch: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("leader_id", "int32", "12+"),
        Field("leader_epoch", "int32", "12+"),
    )


class SnapshotId(Part, kw_only=True):
    """Part of FetchResponse."""

    end_offset: int = -1
    epoch: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("end_offset", "int64", "12+"),
        Field("epoch", "int32", "12+"),
    )


class AbortedTransaction(Part, kw_only=True):
    """Part of FetchResponse."""

    producer_id: int = 0
    first_offset: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("producer_id", "int64", "4+"),
        Field("first_offset", "int64", "4+"),
    )


class PartitionData(Part, kw_only=True):
    """Part of FetchResponse."""

    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset = field(default_factory=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)
    preferred_read_replica: int = -1
    records: bytes | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "4+"),
        Field("error_code", "int16", "4+"),
        Field("high_watermark", "int64", "4+"),
        Field("last_stable_offset", "int64", "4+"),
        Field("log_start_offset", "int64", "5+"),
        Field("diverging_epoch", EpochEndOffset, "12+", tag=0),
        Field("current_leader", LeaderIdAndEpoch, "12+", tag=1),
        Field("snapshot_id", SnapshotId, "12+", tag=2),
        Field("aborted_transactions", AbortedTransaction, "4+", array=True, nullable="4+"),
        Field("preferred_read_replica", "int32", "11+"),
        Field("records", "records", "4+", nullable="4+"),
    )


class FetchableTopicResponse(Part, kw_only=True):
    """Part of FetchResponse."""

    topic: str = ""
    topic_id: UUID = NO_UUID
    partitions: list[PartitionData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "4-12"),
        Field("topic_id", "uuid", "13+"),
        Field("partitions", PartitionData, "4+", array=True),
    )


class NodeEndpoint(Part, kw_only=True):
    """Part of FetchResponse."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("node_id", "int32", "16+"),
        Field("host", "string", "16+"),
        Field("port", "int32", "16+"),
        Field("rack", "string", "16+", nullable="16+"),
    )


class FetchResponse(Message, kw_only=True):
    """Versions 4 to 18."""

    API_KEY: ClassVar[int] = 1
    VERSIONS: ClassVar[tuple[int, int]] = (4, 18)
    FLEXIBLE_FROM: ClassVar[int] = 12

    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "4+"),
        Field("error_code", "int16", "7+"),
        Field("session_id", "int32", "7+"),
        Field("responses", FetchableTopicResponse, "4+", array=True),
        Field("node_endpoints", NodeEndpoint, "16+", array=True, tag=0),
    )
