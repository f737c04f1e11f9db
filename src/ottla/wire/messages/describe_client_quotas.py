"""DescribeClientQuotas (API key 48).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class ComponentData(Part, kw_only=True):
    """Part of DescribeClientQuotasRequest."""

    entity_type: str = ""
    match_type: int = 0
    match: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("entity_type", "string", "0+"),
        Field("match_type", "int8", "0+"),
        Field("match", "string", "0+", nullable="0+"),
    )


class DescribeClientQuotasRequest(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 48
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 1

    components: list[ComponentData] = field(default_factory=list)
    strict: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("components", ComponentData, "0+", array=True),
        Field("strict", "bool", "0+"),
    )


class EntityData(Part, kw_only=True):
    """Part of DescribeClientQuotasResponse."""

    entity_type: str = ""
    entity_name: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("entity_type", "string", "0+"),
        Field("entity_name", "string", "0+", nullable="0+"),
    )


class ValueData(Part, kw_only=True):
    """Part of DescribeClientQuotasResponse."""

    key: str = ""
    value: float = 0.0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("key", "string", "0+"),
        Field("value", "float64", "0+"),
    )


class EntryData(Part, kw_only=True):
    """Part of DescribeClientQuotasResponse."""

    entity: list[EntityData] = field(default_factory=list)
    values: list[ValueData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("entity", EntityData, "0+", array=True),
        Field("values", ValueData, "0+", array=True),
    )


class DescribeClientQuotasResponse(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 48
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 1

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("entries", EntryData, "0+", array=True, nullable="0+"),
    )
