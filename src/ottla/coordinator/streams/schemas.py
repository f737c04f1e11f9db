"""The records of `__consumer_offsets` that a streams group is written as, types 17 and 19 to 23.

They are in Kafka's formats. Values are version 0, and always flexible. What Kafka lets be null in
a tagged field it never writes as null; here it is an empty list.
"""

from typing import ClassVar

from msgspec import field

from ottla.coordinator.record_keys import GroupKey, MemberKey
from ottla.wire.message import Field, Message, Part

NEVER_VALIDATED = -1


class StreamsGroupMetadataKey(GroupKey, kw_only=True):
    """Names a group's epoch."""

    RECORD_TYPE: ClassVar[int] = 17


class KeyValue(Part, kw_only=True):
    """A setting or a tag, with its value."""

    key: str = ""
    value: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("key", "string", "0+"),
        Field("value", "string", "0+"),
    )


class StreamsGroupMetadataValue(Message, kw_only=True):
    """A group's epoch, and what it was made for."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    epoch: int = 0
    metadata_hash: int = 0
    validated_topology_epoch: int = NEVER_VALIDATED
    last_assignment_configs: list[KeyValue] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", "0+"),
        Field("metadata_hash", "int64", "0+"),
        Field("validated_topology_epoch", "int32", "0+", tag=0),
        Field("last_assignment_configs", KeyValue, "0+", array=True, tag=1),
    )


class StreamsGroupMemberMetadataKey(MemberKey, kw_only=True):
    """Names what a member said of itself."""

    RECORD_TYPE: ClassVar[int] = 19


class Endpoint(Part, kw_only=True):
    """Where a member answers interactive queries."""

    host: str = ""
    port: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("host", "string", "0+"),
        Field("port", "uint16", "0+"),
    )


class StreamsGroupMemberMetadataValue(Message, kw_only=True):
    """What a member said of itself."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("instance_id", "string", "0+", nullable="0+"),
        Field("rack_id", "string", "0+", nullable="0+"),
        Field("client_id", "string", "0+"),
        Field("client_host", "string", "0+"),
        Field("rebalance_timeout_ms", "int32", "0+"),
        Field("topology_epoch", "int32", "0+"),
        Field("process_id", "string", "0+"),
        Field("user_endpoint", Endpoint, "0+", nullable="0+"),
        Field("client_tags", KeyValue, "0+", array=True),
    )


class StreamsGroupTargetAssignmentMetadataKey(GroupKey, kw_only=True):
    """Names the epoch of a group's target assignment."""

    RECORD_TYPE: ClassVar[int] = 20


class StreamsGroupTargetAssignmentMetadataValue(Message, kw_only=True):
    """The epoch of a group's target assignment, and when it was made."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    assignment_epoch: int = 0
    assignment_timestamp: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("assignment_epoch", "int32", "0+"),
        Field("assignment_timestamp", "int64", "0+", tag=0),
    )


class StreamsGroupTargetAssignmentMemberKey(MemberKey, kw_only=True):
    """Names what a member shall have."""

    RECORD_TYPE: ClassVar[int] = 21


class TargetTaskIds(Part, kw_only=True):
    """Tasks of one subtopology that a member shall have."""

    subtopology_id: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("subtopology_id", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class StreamsGroupTargetAssignmentMemberValue(Message, kw_only=True):
    """What a member shall have."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    active_tasks: list[TargetTaskIds] = field(default_factory=list)
    standby_tasks: list[TargetTaskIds] = field(default_factory=list)
    warmup_tasks: list[TargetTaskIds] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("active_tasks", TargetTaskIds, "0+", array=True),
        Field("standby_tasks", TargetTaskIds, "0+", array=True),
        Field("warmup_tasks", TargetTaskIds, "0+", array=True),
    )


class StreamsGroupCurrentMemberAssignmentKey(MemberKey, kw_only=True):
    """Names what a member has."""

    RECORD_TYPE: ClassVar[int] = 22


class CurrentTaskIds(Part, kw_only=True):
    """Tasks of one subtopology that a member has; active ones with the epoch it got them in."""

    subtopology_id: str = ""
    partitions: list[int] = field(default_factory=list)
    assignment_epochs: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("subtopology_id", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
        Field("assignment_epochs", "int32", "0+", array=True, tag=0),
    )


class StreamsGroupCurrentMemberAssignmentValue(Message, kw_only=True):
    """What a member has, what it is to give up, and its epochs."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    active_tasks: list[CurrentTaskIds] = field(default_factory=list)
    standby_tasks: list[CurrentTaskIds] = field(default_factory=list)
    warmup_tasks: list[CurrentTaskIds] = field(default_factory=list)
    active_tasks_pending_revocation: list[CurrentTaskIds] = field(default_factory=list)
    standby_tasks_pending_revocation: list[CurrentTaskIds] = field(default_factory=list)
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_epoch", "int32", "0+"),
        Field("previous_member_epoch", "int32", "0+"),
        Field("state", "int8", "0+"),
        Field("active_tasks", CurrentTaskIds, "0+", array=True),
        Field("standby_tasks", CurrentTaskIds, "0+", array=True),
        Field("warmup_tasks", CurrentTaskIds, "0+", array=True),
        Field("active_tasks_pending_revocation", CurrentTaskIds, "0+", array=True),
        Field("standby_tasks_pending_revocation", CurrentTaskIds, "0+", array=True),
        Field("warmup_tasks_pending_revocation", CurrentTaskIds, "0+", array=True),
    )


class StreamsGroupTopologyKey(GroupKey, kw_only=True):
    """Names a group's topology."""

    RECORD_TYPE: ClassVar[int] = 23


class TopicInfo(Part, kw_only=True):
    """An internal topic; 0 partitions or replicas: whatever fits."""

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
    """Topics that must have as many partitions as each other, by their places in the lists."""

    source_topics: list[int] = field(default_factory=list)
    source_topic_regex: list[int] = field(default_factory=list)
    repartition_source_topics: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("source_topics", "int16", "0+", array=True),
        Field("source_topic_regex", "int16", "0+", array=True),
        Field("repartition_source_topics", "int16", "0+", array=True),
    )


class Subtopology(Part, kw_only=True):
    """A part of the application whose tasks are divided by the partitions of its sources."""

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


class StreamsGroupTopologyValue(Message, kw_only=True):
    """A group's topology."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    epoch: int = 0
    subtopologies: list[Subtopology] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", "0+"),
        Field("subtopologies", Subtopology, "0+", array=True),
    )
