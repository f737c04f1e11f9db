"""DescribeConfigs (API key 32).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class DescribeConfigsResource(Part, kw_only=True):
    """Part of DescribeConfigsRequest."""

    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resource_type", "int8", "1+"),
        Field("resource_name", "string", "1+"),
        Field("configuration_keys", "string", "1+", array=True, nullable="1+"),
    )


class DescribeConfigsRequest(Message, kw_only=True):
    """Versions 1 to 4."""

    API_KEY: ClassVar[int] = 32
    VERSIONS: ClassVar[tuple[int, int]] = (1, 4)
    FLEXIBLE_FROM: ClassVar[int] = 4

    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: bool = False
    include_documentation: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("resources", DescribeConfigsResource, "1+", array=True),
        Field("include_synonyms", "bool", "1+"),
        Field("include_documentation", "bool", "3+"),
    )


class DescribeConfigsSynonym(Part, kw_only=True):
    """Part of DescribeConfigsResponse."""

    name: str = ""
    value: str | None = ""
    source: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "1+"),
        Field("value", "string", "1+", nullable="1+"),
        Field("source", "int8", "1+"),
    )


class DescribeConfigsResourceResult(Part, kw_only=True):
    """Part of DescribeConfigsResponse."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    config_type: int = 0
    documentation: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "1+"),
        Field("value", "string", "1+", nullable="1+"),
        Field("read_only", "bool", "1+"),
        Field("config_source", "int8", "1+"),
        Field("is_sensitive", "bool", "1+"),
        Field("synonyms", DescribeConfigsSynonym, "1+", array=True),
        Field("config_type", "int8", "3+"),
        Field("documentation", "string", "3+", nullable="3+"),
    )


class DescribeConfigsResult(Part, kw_only=True):
    """Part of DescribeConfigsResponse."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "1+"),
        Field("error_message", "string", "1+", nullable="1+"),
        Field("resource_type", "int8", "1+"),
        Field("resource_name", "string", "1+"),
        Field("configs", DescribeConfigsResourceResult, "1+", array=True),
    )


class DescribeConfigsResponse(Message, kw_only=True):
    """Versions 1 to 4."""

    API_KEY: ClassVar[int] = 32
    VERSIONS: ClassVar[tuple[int, int]] = (1, 4)
    FLEXIBLE_FROM: ClassVar[int] = 4

    throttle_time_ms: int = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("results", DescribeConfigsResult, "1+", array=True),
    )
