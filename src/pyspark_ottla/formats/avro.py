"""Avro values by the reader's schema.

Rules kept here:
1. Values of one schema are wrapped as the block of an Avro file, which polars reads as columns; so
   no Python object is made for a row. Where polars is not there, cannot read a type, or finds a
   value that does not fit, fastavro takes the group value by value, and says which one is wrong.
2. Each value in a block is followed by bytes that its writer cannot know. They must be found behind
   each row: a value with too few or too many bytes never becomes part of another row.
3. The reader's schema decides: fields by name or alias, defaults, wider numbers.
"""

import io
import json
import secrets
from typing import TYPE_CHECKING, Any, Final

import fastavro.schema

from ottla.registry.client import FoundSchema, SchemaRefused
from ottla.registry.decoding import ValueDecodeError, avro_schema
from pyspark_ottla.errors import OptionError
from pyspark_ottla.formats.avro_types import spark_type
from pyspark_ottla.formats.columns import arrow_type, by_rows
from pyspark_ottla.formats.settings import FormatSettings

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
    from pyspark.sql.types import DataType

KNOWN_LOGICAL: Final = frozenset(
    (
        "date",
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "decimal",
    )
)
END: Final = 8
_BROKEN: Final = (ValueError, ArithmeticError, LookupError, TypeError, OSError, RecursionError)


class Avro:
    """A reader's schema."""

    def __init__(self, settings: FormatSettings, reader: FoundSchema) -> None:
        self._settings = settings
        try:
            self._reader = parsed(reader)
        except SchemaRefused as problem:
            raise OptionError(f"option value.format: {problem}") from None
        self._named = fastavro_names(reader)
        self._type, _ = spark_type(self._reader, self._named)
        self._arrow = arrow_type(self._type)

    def type(self) -> "DataType":
        """The reader's schema as Spark's type."""
        return self._type

    def group(self, schema_id: int) -> "AvroGroup":
        """What decodes values of a writer's schema."""
        found = self._settings.by_id(schema_id)
        if found.type != "AVRO":
            raise SchemaRefused(f"it is {found.type}")
        return AvroGroup(found, self._reader, self._named, self._arrow)


class AvroGroup:
    """Decodes values of one schema."""

    def __init__(
        self, writer: FoundSchema, reader: Any, reader_names: dict[str, Any], kind: "pa.DataType"
    ) -> None:
        self._writer = parsed(writer)
        self._reader = reader
        self._kind = kind
        self._block = None
        try:
            from pyspark_ottla.formats.avro_blocks import Block, NotInColumns
        except ModuleNotFoundError:
            return  # without polars
        try:
            self._block = Block(self._writer, fastavro_names(writer), reader, reader_names, kind)
        except NotInColumns:
            pass

    @property
    def in_columns(self) -> bool:
        """Whether values are read without a Python object for each."""
        return self._block is not None

    def decode(self, values: "pa.Array") -> "tuple[pa.Array, dict[int, str]]":
        """The values, and what is wrong with some."""
        if self._block is not None:
            found = self._block.read(values, secrets.token_bytes(END))
            if found is not None:
                return found, {}
        return by_rows(values, self._kind, self._decode)

    def _decode(self, data: bytes) -> object:
        source = io.BytesIO(data)
        found = fastavro.schemaless_reader(source, self._writer, self._reader)
        rest = len(data) - source.tell()
        if rest:
            raise ValueError(f"{rest} bytes are left over")
        return found


def parsed(schema: FoundSchema) -> Any:
    """A schema as fastavro takes it, without the logical types that Spark has no type for."""
    try:
        return avro_schema(_plain_schema(schema))
    except (ValueDecodeError, *_BROKEN) as problem:
        raise SchemaRefused(str(problem)) from None


def fastavro_names(schema: FoundSchema) -> dict[str, Any]:
    """The named types of a schema, and of those that it refers to."""
    named: dict[str, Any] = {}
    plain = _plain_schema(schema)
    for text in (*(text for _, text in plain.references), plain.text):
        fastavro.schema.parse_schema(json.loads(text), named_schemas=named)
    return named


def _plain_schema(schema: FoundSchema) -> FoundSchema:
    references = tuple((name, _plain_text(text)) for name, text in schema.references)
    return schema._replace(text=_plain_text(schema.text), references=references)


def _plain_text(text: str) -> str:
    try:
        return json.dumps(_plain(json.loads(text)))
    except ValueError:
        return json.dumps(text.strip())  # the name of a type without quotes


def _plain(node: Any) -> Any:
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        name: _plain(each) if name in ("type", "items", "values", "fields") else each
        for name, each in node.items()
        if name != "logicalType" or each in KNOWN_LOGICAL
    }
