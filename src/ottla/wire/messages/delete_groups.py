"""DeleteGroups (API key 42).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class DeleteGroupsRequest(Message, kw_only=True):
    """Versions 0 to 2."""

    API_KEY: ClassVar[int] = 42
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int] = 2

    groups_names: list[str] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("groups_names", "string", "0+", array=True),)


class DeletableGroupResult(Part, kw_only=True):
    """Part of DeleteGroupsResponse."""

    group_id: str = ""
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("error_code", "int16", "0+"),
    )


class DeleteGroupsResponse(Message, kw_only=True):
    """Versions 0 to 2."""

    API_KEY: ClassVar[int] = 42
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int] = 2

    throttle_time_ms: int = 0
    results: list[DeletableGroupResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("results", DeletableGroupResult, "0+", array=True),
    )
