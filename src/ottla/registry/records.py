"""The records of the topic `_schemas`, as Confluent's registry writes them.

Rules kept here:
1. A key has its fields in Confluent's order: the topic is compacted by the bytes of its keys, so
   the same key must have the same bytes whichever registry wrote it.
2. A record that makes no sense, or of a kind that is not known, is ignored (None), as Confluent's
   registry does. A tombstone is a key without a value.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from ottla.registry.model import AVRO, Config, Extra, Reference, Schema, Version


class SchemaKey(Struct, frozen=True):
    """A version of a subject."""

    subject: str
    version: int


class ConfigKey(Struct, frozen=True):
    """Settings of a subject; None: of everything."""

    subject: str | None


class ModeKey(Struct, frozen=True):
    """The mode of a subject; None: of everything."""

    subject: str | None


class DeleteSubjectKey(Struct, frozen=True):
    """A soft delete of all versions of a subject up to one."""

    subject: str


class ClearSubjectKey(Struct, frozen=True):
    """A removal of the soft-deleted versions of a subject."""

    subject: str


class NoopKey(Struct, frozen=True):
    """What a new writer writes, to see that it has read everything before it."""


class SchemaValue(Struct, rename="camel", omit_defaults=True):
    """The value of a SchemaKey."""

    subject: str
    version: int
    id: int
    schema: str
    deleted: bool | None = None
    schema_type: str | None = None
    references: list[Reference] = []
    metadata: Extra | None = None
    rule_set: Extra | None = None


class DeleteSubjectValue(Struct):
    """The value of a DeleteSubjectKey."""

    subject: str
    version: int


Key = SchemaKey | ConfigKey | ModeKey | DeleteSubjectKey | ClearSubjectKey | NoopKey
Value = SchemaValue | Config | str | int | None
"""By key: a schema, settings, a mode, the last version that is deleted, nothing."""


class RegistryRecord(Struct, frozen=True):
    """A key and its value; no value is a tombstone (and a Noop or ClearSubject has none)."""

    key: Key
    value: Value = None


_SUBJECT_KEYS: Final[dict[str, type[ConfigKey | ModeKey | DeleteSubjectKey | ClearSubjectKey]]] = {
    "CONFIG": ConfigKey,
    "MODE": ModeKey,
    "DELETE_SUBJECT": DeleteSubjectKey,
    "CLEAR_SUBJECT": ClearSubjectKey,
}
_KEYTYPES: Final = {kind: name for name, kind in _SUBJECT_KEYS.items()}


def schema_record(version: Version) -> RegistryRecord:
    """The record of a version."""
    schema = version.schema
    value = SchemaValue(
        subject=version.subject,
        version=version.version,
        id=version.id,
        schema=schema.text,
        deleted=version.deleted,
        schema_type=None if schema.type == AVRO else schema.type,
        references=list(schema.references),
        metadata=schema.metadata,
        rule_set=schema.rule_set,
    )
    return RegistryRecord(SchemaKey(version.subject, version.version), value)


def version_of(value: SchemaValue) -> Version:
    """What a record says is registered."""
    schema = Schema(
        value.schema,
        value.schema_type or AVRO,
        tuple(value.references),
        value.metadata,
        value.rule_set,
    )
    return Version(value.subject, value.version, value.id, schema, bool(value.deleted))


def encode(record: RegistryRecord) -> tuple[bytes, bytes | None]:
    """The key and value bytes of a record."""
    key: dict[str, object]
    value: object = None
    match record.key:
        case SchemaKey(subject, version):
            key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
            value = record.value
        case NoopKey():
            return b'{"keytype":"NOOP","magic":0}', None
        case other:
            key = {"keytype": _KEYTYPES[type(other)], "subject": other.subject, "magic": 0}
            match other, record.value:
                case ModeKey(), str(mode):
                    value = {"mode": mode}
                case DeleteSubjectKey(subject), int(version):
                    value = {"subject": subject, "version": version}
                case ClearSubjectKey(subject), _:
                    value = {"subject": subject}
                case _:
                    value = record.value
    return msgspec.json.encode(key), None if value is None else msgspec.json.encode(value)


def decode(key: bytes | None, value: bytes | None) -> RegistryRecord | None:
    """The record in these bytes; None where it is to be ignored."""
    try:
        fields: dict[str, Any] = msgspec.json.decode(key or b"", type=dict[str, Any])
        keytype = fields.get("keytype")
        if keytype == "NOOP":
            return RegistryRecord(NoopKey())
        if keytype == "SCHEMA":
            schema_key = msgspec.convert(fields, SchemaKey)
            if value is None:
                return RegistryRecord(schema_key)
            return RegistryRecord(schema_key, msgspec.json.decode(value, type=SchemaValue))
        if keytype not in _SUBJECT_KEYS:
            return None
        subject_key = msgspec.convert({"subject": fields.get("subject")}, _SUBJECT_KEYS[keytype])
        if value is None:
            return RegistryRecord(subject_key)
        match subject_key:
            case ConfigKey():
                return RegistryRecord(subject_key, msgspec.json.decode(value, type=Config))
            case ModeKey():
                return RegistryRecord(
                    subject_key, str(msgspec.json.decode(value, type=dict)["mode"])
                )
            case DeleteSubjectKey():
                found = msgspec.json.decode(value, type=DeleteSubjectValue)
                return RegistryRecord(subject_key, found.version)
            case _:
                return RegistryRecord(subject_key)
    except (msgspec.MsgspecError, KeyError, RecursionError):
        return None
