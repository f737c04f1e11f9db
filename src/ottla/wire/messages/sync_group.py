"""SyncGroup (API key 14).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class SyncGroupRequestAssignment(Part, kw_only=True):
    """Part of SyncGroupRequest."""

    member_id: str = ""
    assignment: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "0+"),
        Field("assignment", "bytes", "0+"),
    )


class SyncGroupRequest(Message, kw_only=True):
    """Versions 0 to 5."""

    API_KEY: ClassVar[int] = 14
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int] = 4

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("generation_id", "int32", "0+"),
        Field("member_id", "string", "0+"),
        Field("group_instance_id", "string", "3+", nullable="3+"),
        Field("protocol_type", "string", "5+", nullable="5+"),
        Field("protocol_name", "string", "5+", nullable="5+"),
        Field("assignments", SyncGroupRequestAssignment, "0+", array=True),
    )


class SyncGroupResponse(Message, kw_only=True):
    """Versions 0 to 5."""

    API_KEY: ClassVar[int] = 14
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int] = 4

    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("error_code", "int16", "0+"),
        Field("protocol_type", "string", "5+", nullable="5+"),
        Field("protocol_name", "string", "5+", nullable="5+"),
        Field("assignment", "bytes", "0+"),
    )
