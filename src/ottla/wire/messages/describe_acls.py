"""DescribeAcls (API key 29).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class DescribeAclsRequest(Message, kw_only=True):
    """Versions 1 to 3."""

    API_KEY: ClassVar[int] = 29
    VERSIONS: ClassVar[tuple[int, int]] = (1, 3)
    FLEXIBLE_FROM: ClassVar[int] = 2

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_type_filter", "int8", "1+"),
        Field("resource_name_filter", "string", "1+", nullable="1+"),
        Field("pattern_type_filter", "int8", "1+"),
        Field("principal_filter", "string", "1+", nullable="1+"),
        Field("host_filter", "string", "1+", nullable="1+"),
        Field("operation", "int8", "1+"),
        Field("permission_type", "int8", "1+"),
    )


class AclDescription(Part, kw_only=True):
    """Part of DescribeAclsResponse."""

    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("principal", "string", "1+"),
        Field("host", "string", "1+"),
        Field("operation", "int8", "1+"),
        Field("permission_type", "int8", "1+"),
    )


class DescribeAclsResource(Part, kw_only=True):
    """Part of DescribeAclsResponse."""

    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    acls: list[AclDescription] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_type", "int8", "1+"),
        Field("resource_name", "string", "1+"),
        Field("pattern_type", "int8", "1+"),
        Field("acls", AclDescription, "1+", array=True),
    )


class DescribeAclsResponse(Message, kw_only=True):
    """Versions 1 to 3."""

    API_KEY: ClassVar[int] = 29
    VERSIONS: ClassVar[tuple[int, int]] = (1, 3)
    FLEXIBLE_FROM: ClassVar[int] = 2

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResource] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("error_code", "int16", "1+"),
        Field("error_message", "string", "1+", nullable="1+"),
        Field("resources", DescribeAclsResource, "1+", array=True),
    )
