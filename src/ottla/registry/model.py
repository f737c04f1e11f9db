"""The values of a registry: schemas, their references, versions, levels and modes."""

import hashlib
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from ottla.registry.errors import invalid_compatibility, invalid_mode

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
TYPES: Final = (JSON, PROTOBUF, AVRO)

Extra = dict[str, Any]
"""Metadata and rule sets: kept and given back, never looked into."""


class Reference(Struct, frozen=True, forbid_unknown_fields=False):
    """A schema that another one uses, by the name that it uses for it."""

    name: str
    subject: str
    version: int


class Schema(Struct, frozen=True):
    """What an id stands for."""

    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Extra | None = None
    rule_set: Extra | None = None

    @property
    def digest(self) -> bytes:
        """Equal for schemas that have the same id."""
        content = (self.type, self.text, self.references, self.metadata, self.rule_set)
        return hashlib.md5(
            msgspec.json.encode(content, order="deterministic"), usedforsecurity=False
        ).digest()


class Version(Struct):
    """A schema under a subject. Soft-deleted versions are still found by their id."""

    subject: str
    version: int
    id: int
    schema: Schema
    deleted: bool = False


class Level(StrEnum):
    """Which earlier versions a new one must be compatible with, and in which direction."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def transitive(self) -> bool:
        """True where all earlier versions count, not the last one only."""
        return self.name.endswith("_TRANSITIVE")

    @property
    def backward(self) -> bool:
        """The new schema reads data of the old one."""
        return self.name.startswith(("BACKWARD", "FULL"))

    @property
    def forward(self) -> bool:
        """The old schema reads data of the new one."""
        return self.name.startswith(("FORWARD", "FULL"))


class Mode(StrEnum):
    """What may be written."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"


class Config(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The settings of a subject, a context or everything."""

    compatibility_level: str | None = None
    normalize: bool | None = None
    alias: str | None = None
    validate_fields: bool | None = None
    compatibility_group: str | None = None
    default_metadata: Extra | None = None
    override_metadata: Extra | None = None
    default_rule_set: Extra | None = None
    override_rule_set: Extra | None = None


def parse_level(text: str) -> Level:
    """A compatibility level, in any case."""
    try:
        return Level(text.upper())
    except ValueError:
        raise invalid_compatibility() from None


def parse_mode(text: str) -> Mode:
    """A mode, in any case."""
    try:
        return Mode(text.upper())
    except ValueError:
        raise invalid_mode() from None
