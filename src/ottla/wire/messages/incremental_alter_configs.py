"""IncrementalAlterConfigs (API key 44).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class AlterableConfig(Part, kw_only=True):
    """Part of IncrementalAlterConfigsRequest."""

    name: str = ""
    config_operation: int = 0
    value: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("config_operation", "int8", "0+"),
        Field("value", "string", "0+", nullable="0+"),
    )


class AlterConfigsResource(Part, kw_only=True):
    """Part of IncrementalAlterConfigsRequest."""

    resource_type: int = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_type", "int8", "0+"),
        Field("resource_name", "string", "0+"),
        Field("configs", AlterableConfig, "0+", array=True),
    )


class IncrementalAlterConfigsRequest(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 44
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 1

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resources", AlterConfigsResource, "0+", array=True),
        Field("validate_only", "bool", "0+"),
    )


class AlterConfigsResourceResponse(Part, kw_only=True):
    """Part of IncrementalAlterConfigsResponse."""

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


class IncrementalAlterConfigsResponse(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 44
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 1

    throttle_time_ms: int = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("responses", AlterConfigsResourceResponse, "0+", array=True),
    )
