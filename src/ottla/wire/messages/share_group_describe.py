"""ShareGroupDescribe (API key 77).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class ShareGroupDescribeRequest(Message, kw_only=True):
    """Version 1."""

    API_KEY: ClassVar[int] = 77
    VERSIONS: ClassVar[tuple[int, int]] = (1, 1)
    FLEXIBLE_FROM: ClassVar[int] = 1

    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_ids", "string", "1+", array=True),
        Field("include_authorized_operations", "bool", "1+"),
    )


class TopicPartitions(Part, kw_only=True):
    """Part of ShareGroupDescribeResponse."""

    topic_id: UUID = NO_UUID
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "1+"),
        Field("topic_name", "string", "1+"),
        Field("partitions", "int32", "1+", array=True),
    )


class Assignment(Part, kw_only=True):
    """Part of ShareGroupDescribeResponse."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_partitions", TopicPartitions, "1+", array=True),
    )


class Member(Part, kw_only=True):
    """Part of ShareGroupDescribeResponse."""

    member_id: str = ""
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    assignment: Assignment = field(default_factory=Assignment)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "1+"),
        Field("rack_id", "string", "1+", nullable="1+"),
        Field("member_epoch", "int32", "1+"),
        Field("client_id", "string", "1+"),
        Field("client_host", "string", "1+"),
        Field("subscribed_topic_names", "string", "1+", array=True),
        Field("assignment", Assignment, "1+"),
    )


class DescribedGroup(Part, kw_only=True):
    """Part of ShareGroupDescribeResponse."""

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[Member] = field(default_factory=list)
    authorized_operations: int = -2147483648

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "1+"),
        Field("error_message", "string", "1+", nullable="1+"),
        Field("group_id", "string", "1+"),
        Field("group_state", "string", "1+"),
        Field("group_epoch", "int32", "1+"),
        Field("assignment_epoch", "int32", "1+"),
        Field("assignor_name", "string", "1+"),
        Field("members", Member, "1+", array=True),
        Field("authorized_operations", "int32", "1+"),
    )


class ShareGroupDescribeResponse(Message, kw_only=True):
    """Version 1."""

    API_KEY: ClassVar[int] = 77
    VERSIONS: ClassVar[tuple[int, int]] = (1, 1)
    FLEXIBLE_FROM: ClassVar[int] = 1

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("groups", DescribedGroup, "1+", array=True),
    )
