"""The records of `__consumer_offsets` that hold groups, in Kafka's own formats.

A classic group is one record: all of its last stable generation. A consumer group (KIP-848) is
several: its epoch, its target assignment, and three for each member.

Rules kept here:
1. Keys are never flexible; the values of consumer groups are version 0 and always are.
2. A classic group is written as version 3, as Kafka 4.3 does, and read from 0 to 4.
3. What Kafka sends as a tagged null is left out of the wire, so that None and an empty list say
   the same here.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part

CLASSIC_GROUP_VALUE_VERSION = 3


class GroupMetadataKey(Message, kw_only=True):
    """Names a classic group."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)

    group: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("group", "string", "0+"),)


class MemberMetadata(Part, kw_only=True):
    """Part of GroupMetadataValue."""

    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = 0
    subscription: bytes = b""
    assignment: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "0+"),
        Field("group_instance_id", "string", "3+", nullable="3+"),
        Field("client_id", "string", "0+"),
        Field("client_host", "string", "0+"),
        Field("rebalance_timeout", "int32", "1+"),
        Field("session_timeout", "int32", "0+"),
        Field("subscription", "bytes", "0+"),
        Field("assignment", "bytes", "0+"),
    )


class GroupMetadataValue(Message, kw_only=True):
    """Versions 0 to 4."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int] = 4

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: int = -1
    members: list[MemberMetadata] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("protocol_type", "string", "0+"),
        Field("generation", "int32", "0+"),
        Field("protocol", "string", "0+", nullable="0+"),
        Field("leader", "string", "0+", nullable="0+"),
        Field("current_state_timestamp", "int64", "2+"),
        Field("members", MemberMetadata, "0+", array=True),
    )


class GroupKey(Message, kw_only=True):
    """The fields of every key that names a consumer group."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)

    group_id: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("group_id", "string", "0+"),)


class MemberKey(Message, kw_only=True):
    """The fields of every key that names a member of a consumer group."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)

    group_id: str = ""
    member_id: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("member_id", "string", "0+"),
    )


class ConsumerGroupMetadataKey(GroupKey, kw_only=True):
    """Names a group's epoch."""


class ConsumerGroupMetadataValue(Message, kw_only=True):
    """A group's epoch, and a hash of the topics that it was made for."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    epoch: int = 0
    metadata_hash: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", "0+"),
        Field("metadata_hash", "int64", "0+", tag=0),
    )


class ConsumerGroupPartitionMetadataKey(GroupKey, kw_only=True):
    """Names the topics of a group. Kafka before 4.1 wrote these; now they are only deleted."""


class PartitionMetadata(Part, kw_only=True):
    """Part of ConsumerGroupPartitionMetadataValue."""

    partition: int = 0
    racks: list[str] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition", "int32", "0+"),
        Field("racks", "string", "0+", array=True),
    )


class TopicMetadata(Part, kw_only=True):
    """Part of ConsumerGroupPartitionMetadataValue."""

    topic_id: UUID = NO_UUID
    topic_name: str = ""
    num_partitions: int = 0
    partition_metadata: list[PartitionMetadata] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("topic_name", "string", "0+"),
        Field("num_partitions", "int32", "0+"),
        Field("partition_metadata", PartitionMetadata, "0+", array=True),
    )


class ConsumerGroupPartitionMetadataValue(Message, kw_only=True):
    """The topics of a group, as Kafka before 4.1 kept them."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    topics: list[TopicMetadata] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("topics", TopicMetadata, "0+", array=True),)


class ConsumerGroupMemberMetadataKey(MemberKey, kw_only=True):
    """Names what a member said of itself."""


class ClassicProtocol(Part, kw_only=True):
    """Part of ConsumerGroupMemberMetadataValue."""

    name: str = ""
    metadata: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("metadata", "bytes", "0+"),
    )


class ClassicMemberMetadata(Part, kw_only=True):
    """Part of ConsumerGroupMemberMetadataValue: a member that uses the classic protocol."""

    session_timeout_ms: int = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("session_timeout_ms", "int32", "0+"),
        Field("supported_protocols", ClassicProtocol, "0+", array=True),
    )


class ConsumerGroupMemberMetadataValue(Message, kw_only=True):
    """What a member said of itself."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: ClassicMemberMetadata | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("instance_id", "string", "0+", nullable="0+"),
        Field("rack_id", "string", "0+", nullable="0+"),
        Field("client_id", "string", "0+"),
        Field("client_host", "string", "0+"),
        Field("subscribed_topic_names", "string", "0+", array=True),
        Field("subscribed_topic_regex", "string", "0+", nullable="0+"),
        Field("rebalance_timeout_ms", "int32", "0+"),
        Field("server_assignor", "string", "0+", nullable="0+"),
        Field("classic_member_metadata", ClassicMemberMetadata, "0+", nullable="0+", tag=0),
    )


class ConsumerGroupTargetAssignmentMetadataKey(GroupKey, kw_only=True):
    """Names the epoch of a group's target assignment."""


class ConsumerGroupTargetAssignmentMetadataValue(Message, kw_only=True):
    """The epoch of a group's target assignment, and when it was made."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    assignment_epoch: int = 0
    assignment_timestamp: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("assignment_epoch", "int32", "0+"),
        Field("assignment_timestamp", "int64", "0+", tag=0),
    )


class ConsumerGroupTargetAssignmentMemberKey(MemberKey, kw_only=True):
    """Names what a member shall own."""


class TargetTopicPartitions(Part, kw_only=True):
    """Part of ConsumerGroupTargetAssignmentMemberValue."""

    topic_id: UUID = NO_UUID
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class ConsumerGroupTargetAssignmentMemberValue(Message, kw_only=True):
    """What a member shall own."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    topic_partitions: list[TargetTopicPartitions] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_partitions", TargetTopicPartitions, "0+", array=True),
    )


class ConsumerGroupCurrentMemberAssignmentKey(MemberKey, kw_only=True):
    """Names what a member owns."""


class CurrentTopicPartitions(Part, kw_only=True):
    """Part of ConsumerGroupCurrentMemberAssignmentValue."""

    topic_id: UUID = NO_UUID
    partitions: list[int] = field(default_factory=list)
    assignment_epochs: list[int] = field(default_factory=list)
    """The epoch in which each partition came to the member; Kafka before 4.2 has none."""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", "int32", "0+", array=True),
        Field("assignment_epochs", "int32", "0+", array=True, tag=0),
    )


class ConsumerGroupCurrentMemberAssignmentValue(Message, kw_only=True):
    """What a member owns, and how far it has come with its target."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[CurrentTopicPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[CurrentTopicPartitions] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_epoch", "int32", "0+"),
        Field("previous_member_epoch", "int32", "0+"),
        Field("state", "int8", "0+"),
        Field("assigned_partitions", CurrentTopicPartitions, "0+", array=True),
        Field("partitions_pending_revocation", CurrentTopicPartitions, "0+", array=True),
    )


class ConsumerGroupRegularExpressionKey(Message, kw_only=True):
    """Names a pattern that members of a group subscribe to."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)

    group_id: str = ""
    regular_expression: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("regular_expression", "string", "0+"),
    )


class ConsumerGroupRegularExpressionValue(Message, kw_only=True):
    """The topics that a pattern matched, at a version of the cluster's metadata."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    topics: list[str] = field(default_factory=list)
    version: int = 0
    timestamp: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", "string", "0+", array=True),
        Field("version", "int64", "0+"),
        Field("timestamp", "int64", "0+"),
    )
