"""Records of `_schemas` as Confluent's registry writes them, byte for byte where it matters."""

import pytest

from ottla.registry.model import Config, Reference, Schema, Version
from ottla.registry.records import (
    ClearSubjectKey,
    ConfigKey,
    DeleteSubjectKey,
    ModeKey,
    NoopKey,
    RegistryRecord,
    SchemaKey,
    decode,
    encode,
    schema_record,
)

AVRO = Version("s", 1, 7, Schema('"string"'))
PROTO = Version("s", 2, 8, Schema("x", "PROTOBUF", (Reference("o.proto", "o", 1),)), deleted=True)


@pytest.mark.parametrize(
    ("record", "key"),
    [
        (schema_record(AVRO), b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'),
        (RegistryRecord(ConfigKey(None)), b'{"keytype":"CONFIG","subject":null,"magic":0}'),
        (RegistryRecord(ConfigKey("s")), b'{"keytype":"CONFIG","subject":"s","magic":0}'),
        (RegistryRecord(ModeKey(None)), b'{"keytype":"MODE","subject":null,"magic":0}'),
        (
            RegistryRecord(DeleteSubjectKey("s"), 3),
            b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
        ),
        (
            RegistryRecord(ClearSubjectKey("s")),
            b'{"keytype":"CLEAR_SUBJECT","subject":"s","magic":0}',
        ),
        (RegistryRecord(NoopKey()), b'{"keytype":"NOOP","magic":0}'),
    ],
)
def test_keys_have_the_bytes_that_compaction_needs(record: RegistryRecord, key: bytes) -> None:
    assert encode(record)[0] == key


@pytest.mark.parametrize(
    "record",
    [
        schema_record(AVRO),
        schema_record(PROTO),
        RegistryRecord(SchemaKey("s", 1)),
        RegistryRecord(ConfigKey("s"), Config(compatibility_level="FULL")),
        RegistryRecord(ConfigKey(None)),
        RegistryRecord(ModeKey("s"), "IMPORT"),
        RegistryRecord(DeleteSubjectKey("s"), 3),
        RegistryRecord(NoopKey()),
    ],
)
def test_a_record_survives_its_bytes(record: RegistryRecord) -> None:
    assert decode(*encode(record)) == record


def test_values_are_those_that_confluent_writes() -> None:
    assert encode(schema_record(AVRO))[1] == (
        b'{"subject":"s","version":1,"id":7,"schema":"\\"string\\"","deleted":false}'
    )
    assert encode(RegistryRecord(ModeKey("s"), "READONLY"))[1] == b'{"mode":"READONLY"}'
    assert encode(RegistryRecord(DeleteSubjectKey("s"), 3))[1] == b'{"subject":"s","version":3}'
    assert encode(RegistryRecord(ConfigKey(None), Config(compatibility_level="NONE")))[1] == (
        b'{"compatibilityLevel":"NONE"}'
    )


def test_fields_of_newer_registries_are_taken() -> None:
    value = (
        b'{"subject":"s","version":1,"id":7,"md5":"abc","guid":"g","schema":"\\"int\\"",'
        b'"schemaTags":null,"deleted":false,"offset":1,"timestamp":2}'
    )
    record = decode(b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', value)
    assert record == schema_record(Version("s", 1, 7, Schema('"int"')))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"x"),
        (b"", None),
        (b"\xff\x00", b"{}"),
        (b'{"keytype":"CONTEXT","tenant":"t","context":".c","magic":0}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', b"{}"),
        (b'{"keytype":"MODE","subject":"s","magic":0}', b"{}"),
        (b'{"keytype":"DELETE_SUBJECT","magic":0}', b"{}"),
        (b"[" * 100_000, None),
    ],
)
def test_what_makes_no_sense_is_ignored(key: bytes | None, value: bytes | None) -> None:
    assert decode(key, value) is None
