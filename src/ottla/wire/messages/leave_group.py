"""LeaveGroup (API key 13).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class MemberIdentity(Part, kw_only=True):
    """Part of LeaveGroupRequest."""

    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "3+"),
        Field("group_instance_id", "string", "3+", nullable="3+"),
        Field("reason", "string", "5+", nullable="5+"),
    )


class LeaveGroupRequest(Message, kw_only=True):
    """Versions 0 to 5."""

    API_KEY: ClassVar[int] = 13
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int] = 4

    group_id: str = ""
    member_id: str = ""
    members: list[MemberIdentity] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("member_id", "string", "0-2"),
        Field("members", MemberIdentity, "3+", array=True),
    )


class MemberResponse(Part, kw_only=True):
    """Part of LeaveGroupResponse."""

    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "3+"),
        Field("group_instance_id", "string", "3+", nullable="3+"),
        Field("error_code", "int16", "3+"),
    )


class LeaveGroupResponse(Message, kw_only=True):
    """Versions 0 to 5."""

    API_KEY: ClassVar[int] = 13
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int] = 4

    throttle_time_ms: int = 0
    error_code: int = 0
    members: list[MemberResponse] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("error_code", "int16", "0+"),
        Field("members", MemberResponse, "3+", array=True),
    )
