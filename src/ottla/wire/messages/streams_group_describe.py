"""StreamsGroupDescribe (API key 89).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class StreamsGroupDescribeRequest(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 89
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_ids", "string", "0+", array=True),
        Field("include_authorized_operations", "bool", "0+"),
    )


class KeyValue(Part, kw_only=True):
    """Part of StreamsGroupDescribeResponse."""

    key: str = ""
    value: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("key", "string", "0+"),
        Field("value", "string", "0+"),
    )


class TopicInfo(Part, kw_only=True):
    """Part of StreamsGroupDescribeResponse."""

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


class Subtopology(Part, kw_only=True):
    """Part of StreamsGroupDescribeResponse."""

    subtopology_id: str = ""
    source_topics: list[str] = field(default_factory=list)
    repartition_sink_topics: list[str] = field(default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("subtopology_id", "string", "0+"),
        Field("source_topics", "string", "0+", array=True),
        Field("repartition_sink_topics", "string", "0+", array=True),
        Field("state_changelog_topics", TopicInfo, "0+", array=True),
        Field("repartition_source_topics", TopicInfo, "0+", array=True),
    )


class Topology(Part, kw_only=True):
    """Part of StreamsGroupDescribeResponse."""

    epoch: int = 0
    subtopologies: list[Subtopology] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", "0+"),
        Field("subtopologies", Subtopology, "0+", array=True, nullable="0+"),
    )


class Endpoint(Part, kw_only=True):
    """Part of StreamsGroupDescribeResponse."""

    host: str = ""
    port: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("host", "string", "0+"),
        Field("port", "uint16", "0+"),
    )


class TaskOffset(Part, kw_only=True):
    """Part of StreamsGroupDescribeResponse."""

    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("subtopology_id", "string", "0+"),
        Field("partition", "int32", "0+"),
        Field("offset", "int64", "0+"),
    )


class TaskIds(Part, kw_only=True):
    """Part of StreamsGroupDescribeResponse."""

    subtopology_id: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("subtopology_id", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class Assignment(Part, kw_only=True):
    """Part of StreamsGroupDescribeResponse."""

    active_tasks: list[TaskIds] = field(default_factory=list)
    standby_tasks: list[TaskIds] = field(default_factory=list)
    warmup_tasks: list[TaskIds] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("active_tasks", TaskIds, "0+", array=True),
        Field("standby_tasks", TaskIds, "0+", array=True),
        Field("warmup_tasks", TaskIds, "0+", array=True),
    )


class Member(Part, kw_only=True):
    """Part of StreamsGroupDescribeResponse."""

    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = field(default_factory=list)
    task_offsets: list[TaskOffset] = field(default_factory=list)
    task_end_offsets: list[TaskOffset] = field(default_factory=list)
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    is_classic: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "0+"),
        Field("member_epoch", "int32", "0+"),
        Field("instance_id", "string", "0+", nullable="0+"),
        Field("rack_id", "string", "0+", nullable="0+"),
        Field("client_id", "string", "0+"),
        Field("client_host", "string", "0+"),
        Field("topology_epoch", "int32", "0+"),
        Field("process_id", "string", "0+"),
        Field("user_endpoint", Endpoint, "0+", nullable="0+"),
        Field("client_tags", KeyValue, "0+", array=True),
        Field("task_offsets", TaskOffset, "0+", array=True),
        Field("task_end_offsets", TaskOffset, "0+", array=True),
        Field("assignment", Assignment, "0+"),
        Field("target_assignment", Assignment, "0+"),
        Field("is_classic", "bool", "0+"),
    )


class DescribedGroup(Part, kw_only=True):
    """Part of StreamsGroupDescribeResponse."""

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    topology: Topology | None = None
    members: list[Member] = field(default_factory=list)
    authorized_operations: int = -2147483648

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("group_id", "string", "0+"),
        Field("group_state", "string", "0+"),
        Field("group_epoch", "int32", "0+"),
        Field("assignment_epoch", "int32", "0+"),
        Field("topology", Topology, "0+", nullable="0+"),
        Field("members", Member, "0+", array=True),
        Field("authorized_operations", "int32", "0+"),
    )


class StreamsGroupDescribeResponse(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 89
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("groups", DescribedGroup, "0+", array=True),
    )
