"""ListConfigResources (API key 74).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class ListConfigResourcesRequest(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 74
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 0

    resource_types: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("resource_types", "int8", "1+", array=True),)


class ConfigResource(Part, kw_only=True):
    """Part of ListConfigResourcesResponse."""

    resource_name: str = ""
    resource_type: int = 16

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_name", "string", "0+"),
        Field("resource_type", "int8", "1+"),
    )


class ListConfigResourcesResponse(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 74
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: list[ConfigResource] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("config_resources", ConfigResource, "0+", array=True),
    )
