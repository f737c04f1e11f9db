"""StreamsGroupHeartbeat (API key 88).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class KeyValue(Part, kw_only=True):
    """Part of StreamsGroupHeartbeatRequest."""

    key: str = ""
    value: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("key", "string", "0+"),
        Field("value", "string", "0+"),
    )


class TopicInfo(Part, kw_only=True):
    """Part of StreamsGroupHeartbeatRequest."""

    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: list[KeyValue] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", "int32", "0+"),
        Field("replication_factor", "int16", "0+"),
        Field("topic_configs", KeyValue, "0+", array=True),
    )


class CopartitionGroup(Part, kw_only=True):
    """Part of StreamsGroupHeartbeatRequest."""

    source_topics: list[int] = field(default_factory=list)
    source_topic_regex: list[int] = field(default_factory=list)
    repartition_source_topics: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("source_topics", "int16", "0+", array=True),
        Field("source_topic_regex", "int16", "0+", array=True),
        Field("repartition_source_topics", "int16", "0+", array=True),
    )


class Subtopology(Part, kw_only=True):
    """Part of StreamsGroupHeartbeatRequest."""

    subtopology_id: str = ""
    source_topics: list[str] = field(default_factory=list)
    source_topic_regex: list[str] = field(default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)
    repartition_sink_topics: list[str] = field(default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)
    copartition_groups: list[CopartitionGroup] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("subtopology_id", "string", "0+"),
        Field("source_topics", "string", "0+", array=True),
        Field("source_topic_regex", "string", "0+", array=True),
        Field("state_changelog_topics", TopicInfo, "0+", array=True),
        Field("repartition_sink_topics", "string", "0+", array=True),
        Field("repartition_source_topics", TopicInfo, "0+", array=True),
        Field("copartition_groups", CopartitionGroup, "0+", array=True),
    )


class Topology(Part, kw_only=True):
    """Part of StreamsGroupHeartbeatRequest."""

    epoch: int = 0
    subtopologies: list[Subtopology] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", "0+"),
        Field("subtopologies", Subtopology, "0+", array=True),
    )


class TaskIds(Part, kw_only=True):
    """Part of StreamsGroupHeartbeatRequest and StreamsGroupHeartbeatResponse."""

    subtopology_id: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("subtopology_id", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class Endpoint(Part, kw_only=True):
    """Part of StreamsGroupHeartbeatRequest and StreamsGroupHeartbeatResponse."""

    host: str = ""
    port: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("host", "string", "0+"),
        Field("port", "uint16", "0+"),
    )


class TaskOffset(Part, kw_only=True):
    """Part of StreamsGroupHeartbeatRequest."""

    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("subtopology_id", "string", "0+"),
        Field("partition", "int32", "0+"),
        Field("offset", "int64", "0+"),
    )


class StreamsGroupHeartbeatRequest(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 88
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    endpoint_information_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("member_id", "string", "0+"),
        Field("member_epoch", "int32", "0+"),
        Field("endpoint_information_epoch", "int32", "0+"),
        Field("instance_id", "string", "0+", nullable="0+"),
        Field("rack_id", "string", "0+", nullable="0+"),
        Field("rebalance_timeout_ms", "int32", "0+"),
        Field("topology", Topology, "0+", nullable="0+"),
        Field("active_tasks", TaskIds, "0+", array=True, nullable="0+"),
        Field("standby_tasks", TaskIds, "0+", array=True, nullable="0+"),
        Field("warmup_tasks", TaskIds, "0+", array=True, nullable="0+"),
        Field("process_id", "string", "0+", nullable="0+"),
        Field("user_endpoint", Endpoint, "0+", nullable="0+"),
        Field("client_tags", KeyValue, "0+", array=True, nullable="0+"),
        Field("task_offsets", TaskOffset, "0+", array=True, nullable="0+"),
        Field("task_end_offsets", TaskOffset, "0+", array=True, nullable="0+"),
        Field("shutdown_application", "bool", "0+"),
    )


class Status(Part, kw_only=True):
    """Part of StreamsGroupHeartbeatResponse."""

    status_code: int = 0
    status_detail: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("status_code", "int8", "0+"),
        Field("status_detail", "string", "0+"),
    )


class TopicPartition(Part, kw_only=True):
    """Part of StreamsGroupHeartbeatResponse."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class EndpointToPartitions(Part, kw_only=True):
    """Part of StreamsGroupHeartbeatResponse."""

    user_endpoint: Endpoint = field(default_factory=Endpoint)
    active_partitions: list[TopicPartition] = field(default_factory=list)
    standby_partitions: list[TopicPartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("user_endpoint", Endpoint, "0+"),
        Field("active_partitions", TopicPartition, "0+", array=True),
        Field("standby_partitions", TopicPartition, "0+", array=True),
    )


class StreamsGroupHeartbeatResponse(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 88
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    acceptable_recovery_lag: int = 0
    task_offset_interval_ms: int = 0
    status: list[Status] | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: int = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("member_id", "string", "0+"),
        Field("member_epoch", "int32", "0+"),
        Field("heartbeat_interval_ms", "int32", "0+"),
        Field("acceptable_recovery_lag", "int32", "0+"),
        Field("task_offset_interval_ms", "int32", "0+"),
        Field("status", Status, "0+", array=True, nullable="0+"),
        Field("active_tasks", TaskIds, "0+", array=True, nullable="0+"),
        Field("standby_tasks", TaskIds, "0+", array=True, nullable="0+"),
        Field("warmup_tasks", TaskIds, "0+", array=True, nullable="0+"),
        Field("endpoint_information_epoch", "int32", "0+"),
        Field("partitions_by_user_endpoint", EndpointToPartitions, "0+", array=True, nullable="0+"),
    )
