"""A column of structs as values that carry the id of their schema.

Rules kept here:
1. The driver chooses the schema when it plans: the version that the options name, or one that is
   made from the columns and registered, which the registry refuses where it is not compatible.
2. Rows are encoded in tasks. A row that does not fit the schema fails the task, and is named.
"""

import io
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace
from pyspark.sql.types import DataType, StructType

from ottla.registry.client import FoundSchema
from pyspark_ottla.errors import OptionError
from pyspark_ottla.formats.settings import FormatSettings
from pyspark_ottla.sink.errors import RowError

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

PREFIX = b"\0"

Encode = Callable[[dict[str, Any]], bytes]


def planned(settings: FormatSettings, kind: DataType) -> FormatSettings:
    """The settings with the schema that rows are written by; OptionError."""
    if not isinstance(kind, StructType):
        raise OptionError(
            f"column value is {kind.simpleString()}, but must be a struct for value.format: "
            "struct(*) makes one of all columns"
        )
    try:
        if settings.version is not None:
            return replace(settings, schema_id=settings.chosen().id)
        return replace(settings, schema_id=settings.register(_text(settings.format, kind)))
    except ModuleNotFoundError as missing:
        from ottla.extras import install_command

        raise OptionError(
            f"option value.format is {settings.format!r}: it needs {missing.name}; install it "
            f"with: {install_command('registry')}"
        ) from None


def _text(form: str, kind: StructType) -> str:
    if form == "protobuf":
        from pyspark_ottla.formats.protobuf import protobuf_text_of

        return protobuf_text_of(kind)
    if form == "avro":
        from pyspark_ottla.formats.avro_types import avro_schema_of

        return msgspec.json.encode(avro_schema_of(kind)).decode()
    from pyspark_ottla.formats.json_schema import json_schema_of

    return msgspec.json.encode(json_schema_of(kind)).decode()


def encoded(
    settings: FormatSettings, batches: "Iterable[pa.RecordBatch]", place: int
) -> "Iterator[pa.RecordBatch]":
    """The batches with their column at a place as bytes; raises RowError."""
    import pyarrow as pa

    encode: Encode | None = None
    head = PREFIX + settings.schema_id.to_bytes(4)
    for batch in batches:
        if encode is None:
            encode = _encoder(settings)
        values = [
            None if row is None else head + _encoded(encode, row)
            for row in batch.column(place).to_pylist(maps_as_pydicts="strict")
        ]
        columns = list(batch.columns)
        columns[place] = pa.array(values, pa.binary())
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _encoded(encode: Encode, row: dict[str, Any]) -> bytes:
    try:
        return encode(row)
    except Exception as problem:  # noqa: BLE001 the libraries raise many kinds
        shown = repr(row)
        raise RowError(
            f"a row does not fit the schema of its topic: {problem}; it is "
            f"{shown if len(shown) < 300 else shown[:300] + '...'}"
        ) from None


def _encoder(settings: FormatSettings) -> Encode:
    schema = settings.checked(settings.by_id(settings.schema_id))
    if settings.format == "avro":
        return _avro(schema)
    if settings.format == "protobuf":
        return _protobuf(schema)
    from pyspark_ottla.formats.json_schema import json_value

    json = msgspec.json.Encoder(decimal_format="number")

    def encode(row: dict[str, Any]) -> bytes:
        return json.encode(json_value(row))

    return encode


def _avro(schema: FoundSchema) -> Encode:
    import fastavro

    from pyspark_ottla.formats.avro import parsed

    node = parsed(schema)

    def encode(row: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, node, row, strict_allow_default=True)
        return out.getvalue()

    return encode


def _protobuf(schema: FoundSchema) -> Encode:
    from google.protobuf import message_factory

    from ottla.registry.decoding import protobuf_file
    from pyspark_ottla.formats.protobuf import fill

    _, file = protobuf_file(schema)
    (first, *_) = file.message_types_by_name.values()
    made = message_factory.GetMessageClass(first)

    def encode(row: dict[str, Any]) -> bytes:
        return b"\0" + bytes(fill(made(), row).SerializeToString())

    return encode
