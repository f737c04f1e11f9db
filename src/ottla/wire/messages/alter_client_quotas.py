"""AlterClientQuotas (API key 49).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class EntityData(Part, kw_only=True):
    """Part of AlterClientQuotasRequest and AlterClientQuotasResponse."""

    entity_type: str = ""
    entity_name: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("entity_type", "string", "0+"),
        Field("entity_name", "string", "0+", nullable="0+"),
    )


class OpData(Part, kw_only=True):
    """Part of AlterClientQuotasRequest."""

    key: str = ""
    value: float = 0.0
    remove: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("key", "string", "0+"),
        Field("value", "float64", "0+"),
        Field("remove", "bool", "0+"),
    )


class AlterClientQuotasRequestEntryData(Part, kw_only=True):
    """Part of AlterClientQuotasRequest."""

    entity: list[EntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("entity", EntityData, "0+", array=True),
        Field("ops", OpData, "0+", array=True),
    )


class AlterClientQuotasRequest(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 49
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 1

    entries: list[AlterClientQuotasRequestEntryData] = field(default_factory=list)
    validate_only: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("entries", AlterClientQuotasRequestEntryData, "0+", array=True),
        Field("validate_only", "bool", "0+"),
    )


class AlterClientQuotasResponseEntryData(Part, kw_only=True):
    """Part of AlterClientQuotasResponse."""

    error_code: int = 0
    error_message: str | None = ""
    entity: list[EntityData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("entity", EntityData, "0+", array=True),
    )


class AlterClientQuotasResponse(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 49
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 1

    throttle_time_ms: int = 0
    entries: list[AlterClientQuotasResponseEntryData] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("entries", AlterClientQuotasResponseEntryData, "0+", array=True),
    )
