"""The records of `__consumer_offsets` that a share group (KIP-932) is written as, types 10 to 15.

They are in Kafka's formats. Values are version 0, and always flexible.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.coordinator.record_keys import GroupKey, MemberKey
from ottla.wire.message import NO_UUID, Field, Message, Part


class ShareGroupMemberMetadataKey(MemberKey, kw_only=True):
    """Names what a member said of itself."""

    RECORD_TYPE: ClassVar[int] = 10


class ShareGroupMemberMetadataValue(Message, kw_only=True):
    """What a member said of itself."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("rack_id", "string", "0+", nullable="0+"),
        Field("client_id", "string", "0+"),
        Field("client_host", "string", "0+"),
        Field("subscribed_topic_names", "string", "0+", array=True),
    )


class ShareGroupMetadataKey(GroupKey, kw_only=True):
    """Names a group's epoch."""

    RECORD_TYPE: ClassVar[int] = 11


class ShareGroupMetadataValue(Message, kw_only=True):
    """A group's epoch, and a hash of the topics that it was made for."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    epoch: int = 0
    metadata_hash: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("epoch", "int32", "0+"),
        Field("metadata_hash", "int64", "0+"),
    )


class ShareGroupTargetAssignmentMetadataKey(GroupKey, kw_only=True):
    """Names the epoch of a group's target assignment."""

    RECORD_TYPE: ClassVar[int] = 12


class ShareGroupTargetAssignmentMetadataValue(Message, kw_only=True):
    """The epoch of a group's target assignment, and when it was made."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    assignment_epoch: int = 0
    assignment_timestamp: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("assignment_epoch", "int32", "0+"),
        Field("assignment_timestamp", "int64", "0+", tag=0),
    )


class ShareGroupTargetAssignmentMemberKey(MemberKey, kw_only=True):
    """Names what a member shall read."""

    RECORD_TYPE: ClassVar[int] = 13


class AssignedTopic(Part, kw_only=True):
    """Partitions of a topic, in a target or in what a member has."""

    topic_id: UUID = NO_UUID
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class ShareGroupTargetAssignmentMemberValue(Message, kw_only=True):
    """What a member shall read."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    topic_partitions: list[AssignedTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_partitions", AssignedTopic, "0+", array=True),
    )


class ShareGroupCurrentMemberAssignmentKey(MemberKey, kw_only=True):
    """Names what a member reads."""

    RECORD_TYPE: ClassVar[int] = 14


class ShareGroupCurrentMemberAssignmentValue(Message, kw_only=True):
    """What a member reads, and its epochs."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[AssignedTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_epoch", "int32", "0+"),
        Field("previous_member_epoch", "int32", "0+"),
        Field("state", "int8", "0+"),
        Field("assigned_partitions", AssignedTopic, "0+", array=True),
    )


class ShareGroupStatePartitionMetadataKey(GroupKey, kw_only=True):
    """Names the share partitions of a group that have state."""

    RECORD_TYPE: ClassVar[int] = 15


class TopicPartitionsInfo(Part, kw_only=True):
    """Part of ShareGroupStatePartitionMetadataValue."""

    topic_id: UUID = NO_UUID
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("topic_name", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class TopicInfo(Part, kw_only=True):
    """Part of ShareGroupStatePartitionMetadataValue."""

    topic_id: UUID = NO_UUID
    topic_name: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "0+"),
        Field("topic_name", "string", "0+"),
    )


class ShareGroupStatePartitionMetadataValue(Message, kw_only=True):
    """The share partitions of a group that have state, get it, or lose it."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    initializing_topics: list[TopicPartitionsInfo] = field(default_factory=list)
    initialized_topics: list[TopicPartitionsInfo] = field(default_factory=list)
    deleting_topics: list[TopicInfo] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("initializing_topics", TopicPartitionsInfo, "0+", array=True),
        Field("initialized_topics", TopicPartitionsInfo, "0+", array=True),
        Field("deleting_topics", TopicInfo, "0+", array=True),
    )
