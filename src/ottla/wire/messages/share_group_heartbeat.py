"""ShareGroupHeartbeat (API key 76).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class ShareGroupHeartbeatRequest(Message, kw_only=True):
    """Version 1."""

    API_KEY: ClassVar[int] = 76
    VERSIONS: ClassVar[tuple[int, int]] = (1, 1)
    FLEXIBLE_FROM: ClassVar[int] = 1

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "1+"),
        Field("member_id", "string", "1+"),
        Field("member_epoch", "int32", "1+"),
        Field("rack_id", "string", "1+", nullable="1+"),
        Field("subscribed_topic_names", "string", "1+", array=True, nullable="1+"),
    )


class TopicPartitions(Part, kw_only=True):
    """Part of ShareGroupHeartbeatResponse."""

    topic_id: UUID = NO_UUID
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_id", "uuid", "1+"),
        Field("partitions", "int32", "1+", array=True),
    )


class Assignment(Part, kw_only=True):
    """Part of ShareGroupHeartbeatResponse."""

    topic_partitions: list[TopicPartitions] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_partitions", TopicPartitions, "1+", array=True),
    )


class ShareGroupHeartbeatResponse(Message, kw_only=True):
    """Version 1."""

    API_KEY: ClassVar[int] = 76
    VERSIONS: ClassVar[tuple[int, int]] = (1, 1)
    FLEXIBLE_FROM: ClassVar[int] = 1

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("error_code", "int16", "1+"),
        Field("error_message", "string", "1+", nullable="1+"),
        Field("member_id", "string", "1+", nullable="1+"),
        Field("member_epoch", "int32", "1+"),
        Field("heartbeat_interval_ms", "int32", "1+"),
        Field("assignment", Assignment, "1+", nullable="1+"),
    )
