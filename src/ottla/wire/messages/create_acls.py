"""CreateAcls (API key 30).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class AclCreation(Part, kw_only=True):
    """Part of CreateAclsRequest."""

    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_type", "int8", "1+"),
        Field("resource_name", "string", "1+"),
        Field("resource_pattern_type", "int8", "1+"),
        Field("principal", "string", "1+"),
        Field("host", "string", "1+"),
        Field("operation", "int8", "1+"),
        Field("permission_type", "int8", "1+"),
    )


class CreateAclsRequest(Message, kw_only=True):
    """Versions 1 to 3."""

    API_KEY: ClassVar[int] = 30
    VERSIONS: ClassVar[tuple[int, int]] = (1, 3)
    FLEXIBLE_FROM: ClassVar[int] = 2

    creations: list[AclCreation] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("creations", AclCreation, "1+", array=True),)


class AclCreationResult(Part, kw_only=True):
    """Part of CreateAclsResponse."""

    error_code: int = 0
    error_message: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "1+"),
        Field("error_message", "string", "1+", nullable="1+"),
    )


class CreateAclsResponse(Message, kw_only=True):
    """Versions 1 to 3."""

    API_KEY: ClassVar[int] = 30
    VERSIONS: ClassVar[tuple[int, int]] = (1, 3)
    FLEXIBLE_FROM: ClassVar[int] = 2

    throttle_time_ms: int = 0
    results: list[AclCreationResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("results", AclCreationResult, "1+", array=True),
    )
