"""AlterConfigs (API key 33).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class AlterableConfig(Part, kw_only=True):
    """Part of AlterConfigsRequest."""

    name: str = ""
    value: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("value", "string", "0+", nullable="0+"),
    )


class AlterConfigsResource(Part, kw_only=True):
    """Part of AlterConfigsRequest."""

    resource_type: int = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_type", "int8", "0+"),
        Field("resource_name", "string", "0+"),
        Field("configs", AlterableConfig, "0+", array=True),
    )


class AlterConfigsRequest(Message, kw_only=True):
    """Versions 0 to 2."""

    API_KEY: ClassVar[int] = 33
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int] = 2

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resources", AlterConfigsResource, "0+", array=True),
        Field("validate_only", "bool", "0+"),
    )


class AlterConfigsResourceResponse(Part, kw_only=True):
    """Part of AlterConfigsResponse."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("resource_type", "int8", "0+"),
        Field("resource_name", "string", "0+"),
    )


class AlterConfigsResponse(Message, kw_only=True):
    """Versions 0 to 2."""

    API_KEY: ClassVar[int] = 33
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int] = 2

    throttle_time_ms: int = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("responses", AlterConfigsResourceResponse, "0+", array=True),
    )
