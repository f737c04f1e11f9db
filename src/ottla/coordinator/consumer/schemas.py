"""The records of `__consumer_offsets` that a consumer group (KIP-848) is written as.

They are in Kafka's formats: the group's epoch, its target assignment, three for each member, and
one for each regular expression.

Rules kept here:
1. Values are version 0, and always flexible.
2. What Kafka sends as a tagged null is left out of the wire, so that None and an empty list say
   the same here.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.coordinator.record_keys import GroupKey, MemberKey
from ottla.wire.message import NO_UUID, Field, Message, Part


class ConsumerGroupMetadataKey(GroupKey, kw_only=True):
    """Names a group's epoch."""

    RECORD_TYPE: ClassVar[int] = 3


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

    RECORD_TYPE: ClassVar[int] = 4


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

    RECORD_TYPE: ClassVar[int] = 5


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


_TAGGED_NULL = b"\x01\x00\x01\x00"
"""The end of a value whose only tagged field is a structure that is null: one field, tag 0, one
byte, null. No other value can end so: a structure that is there ends with two counts of 0."""


def without_tagged_null(value: bytes) -> bytes:
    """A ConsumerGroupMemberMetadataValue in which Kafka wrote "no classic member" as a null."""
    if value.endswith(_TAGGED_NULL):
        return value[: -len(_TAGGED_NULL)] + b"\x00"
    return value


class ConsumerGroupTargetAssignmentMetadataKey(GroupKey, kw_only=True):
    """Names the epoch of a group's target assignment."""

    RECORD_TYPE: ClassVar[int] = 6


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

    RECORD_TYPE: ClassVar[int] = 7


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

    RECORD_TYPE: ClassVar[int] = 8


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


class ConsumerGroupRegularExpressionKey(GroupKey, kw_only=True):
    """Names a pattern that members of a group subscribe to."""

    RECORD_TYPE: ClassVar[int] = 16

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
