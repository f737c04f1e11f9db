"""JoinGroup (API key 11).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class JoinGroupRequestProtocol(Part, kw_only=True):
    """Part of JoinGroupRequest."""

    name: str = ""
    metadata: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("metadata", "bytes", "0+"),
    )


class JoinGroupRequest(Message, kw_only=True):
    """Versions 0 to 9."""

    API_KEY: ClassVar[int] = 11
    VERSIONS: ClassVar[tuple[int, int]] = (0, 9)
    FLEXIBLE_FROM: ClassVar[int] = 6

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)
    reason: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("session_timeout_ms", "int32", "0+"),
        Field("rebalance_timeout_ms", "int32", "1+"),
        Field("member_id", "string", "0+"),
        Field("group_instance_id", "string", "5+", nullable="5+"),
        Field("protocol_type", "string", "0+"),
        Field("protocols", JoinGroupRequestProtocol, "0+", array=True),
        Field("reason", "string", "8+", nullable="8+"),
    )


class JoinGroupResponseMember(Part, kw_only=True):
    """Part of JoinGroupResponse."""

    member_id: str = ""
    group_instance_id: str | None = None
    metadata: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "0+"),
        Field("group_instance_id", "string", "5+", nullable="5+"),
        Field("metadata", "bytes", "0+"),
    )


class JoinGroupResponse(Message, kw_only=True):
    """Versions 0 to 9."""

    API_KEY: ClassVar[int] = 11
    VERSIONS: ClassVar[tuple[int, int]] = (0, 9)
    FLEXIBLE_FROM: ClassVar[int] = 6

    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "2+"),
        Field("error_code", "int16", "0+"),
        Field("generation_id", "int32", "0+"),
        Field("protocol_type", "string", "7+", nullable="7+"),
        Field("protocol_name", "string", "0+", nullable="7+"),
        Field("leader", "string", "0+"),
        Field("skip_assignment", "bool", "9+"),
        Field("member_id", "string", "0+"),
        Field("members", JoinGroupResponseMember, "0+", array=True),
    )
