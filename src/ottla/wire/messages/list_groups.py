"""ListGroups (API key 16).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class ListGroupsRequest(Message, kw_only=True):
    """Versions 0 to 5."""

    API_KEY: ClassVar[int] = 16
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int] = 3

    states_filter: list[str] = field(default_factory=list)
    types_filter: list[str] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("states_filter", "string", "4+", array=True),
        Field("types_filter", "string", "5+", array=True),
    )


class ListedGroup(Part, kw_only=True):
    """Part of ListGroupsResponse."""

    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("protocol_type", "string", "0+"),
        Field("group_state", "string", "4+"),
        Field("group_type", "string", "5+"),
    )


class ListGroupsResponse(Message, kw_only=True):
    """Versions 0 to 5."""

    API_KEY: ClassVar[int] = 16
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int] = 3

    throttle_time_ms: int = 0
    error_code: int = 0
    groups: list[ListedGroup] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("error_code", "int16", "0+"),
        Field("groups", ListedGroup, "0+", array=True),
    )
