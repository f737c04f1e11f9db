"""Values of many schemas as one column of the reader's type, and what is said of misfits.

Rules kept here:
1. Values are taken by their schema's id, each group at once; rows keep their places.
2. A null value is a null. A value that cannot be decoded is an error that names its record, or (in
   the permissive modes) null with the reason beside it. No other row suffers.
"""

from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.registry.client import SchemaRefused
from pyspark_ottla.errors import OptionError
from pyspark_ottla.formats.settings import KEEP, FormatSettings

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
    from pyspark.sql.types import DataType

HEADER: Final = 5
ERROR, BYTES = "valueError", "valueBytes"
SCHEMA_ID: Final = "ottla.schema.id"
"""In the metadata of the column value: tasks decode by the schema that the plan was made with."""


class UndecodableValue(Exception):  # noqa: N818 (it names what happened)
    """A value that cannot be decoded, and there is no column to say so."""


class Group(Protocol):
    """Decodes values of one schema."""

    def decode(self, values: "pa.Array") -> "tuple[pa.Array, dict[int, str]]":
        """The values (with the five bytes of the id) by the reader's type, and what is wrong with
        some of them, which are null then.
        """


class Language(Protocol):
    """A schema language, with a reader's schema."""

    def type(self) -> "DataType":
        """The reader's schema as Spark's type."""

    def group(self, schema_id: int) -> Group:
        """What decodes values of a writer's schema; SchemaRefused."""


def language_of(settings: FormatSettings) -> Language:
    """The language, with the schema that `settings.schema_id` says."""
    reader = settings.checked(settings.by_id(settings.schema_id))
    try:
        match settings.format:
            case "avro":
                from pyspark_ottla.formats.avro import Avro

                return Avro(settings, reader)
            case "json-schema":
                from pyspark_ottla.formats.json_schema import JsonSchema

                return JsonSchema(settings, reader)
            case _:
                from pyspark_ottla.formats.protobuf import Protobuf

                return Protobuf(settings, reader)
    except ModuleNotFoundError as missing:
        from ottla.extras import install_command

        raise OptionError(
            f"option value.format is {settings.format!r}: it needs {missing.name}; install it "
            f"with: {install_command('registry')}"
        ) from None


def arrow_type(kind: "DataType") -> "pa.DataType":
    """The type in which Spark takes a column."""
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(kind, timezone="UTC")


class Values:
    """Decodes the column value of batches."""

    def __init__(self, settings: FormatSettings) -> None:
        self._settings = settings
        self._language = language_of(settings)
        self._type = arrow_type(self._language.type())
        self._groups: dict[int, Group | str] = {}

    def applied(self, rows: "pa.RecordBatch", topic: str, partition: int) -> "pa.RecordBatch":
        """The batch with its values decoded; raises UndecodableValue."""
        import pyarrow as pa

        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        raw = columns["value"]
        columns["value"], problems = self.decode(raw)
        if self._settings.is_permissive:
            texts = [problems.get(place) for place in range(len(raw))] if problems else None
            none = pa.nulls(len(raw), pa.string())
            columns[ERROR] = none if texts is None else pa.array(texts, pa.string())
            columns[BYTES] = raw if self._settings.mode == KEEP else _only(raw, problems)
        elif problems:
            place = min(problems)
            offset = columns["offset"][place].as_py()
            raise UndecodableValue(
                f"record {offset} in partition {partition} of topic {topic}: {problems[place]} "
                "(value.mode=permissive would go on)"
            )
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def decode(self, raw: "pa.Array") -> "tuple[pa.Array, dict[int, str]]":
        """A column of values, and what is wrong with those at some places."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc  # type: ignore[import-untyped]  # it has no stubs

        heads = pc.binary_slice(raw, 0, HEADER).dictionary_encode()
        if len(heads.dictionary) == 1 and not heads.null_count:
            return self._group(heads.dictionary[0].as_py(), raw)
        codes = heads.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        parts: list[pa.Array] = []
        places = np.zeros(len(raw), dtype=np.int64)
        problems: dict[int, str] = {}
        done = 0
        for code, head in [(-1, None), *enumerate(heads.dictionary.to_pylist())]:
            rows = np.flatnonzero(codes == code)
            if not len(rows):
                continue
            if head is None:
                part: pa.Array = pa.nulls(len(rows), self._type)
            else:
                part, wrong = self._group(head, raw.take(pa.array(rows)))
                problems |= {int(rows[place]): text for place, text in wrong.items()}
            parts.append(part)
            places[rows] = np.arange(done, done + len(rows))
            done += len(rows)
        if not parts:
            return pa.nulls(0, self._type), {}
        return pa.concat_arrays(parts).take(pa.array(places)), problems

    def _group(self, head: bytes, values: "pa.Array") -> "tuple[pa.Array, dict[int, str]]":
        if len(head) < HEADER or head[0] != 0:
            found: Group | str = "the value carries no schema id"
        else:
            found = self._known(int.from_bytes(head[1:]))
        if isinstance(found, str):
            import pyarrow as pa

            return pa.nulls(len(values), self._type), dict.fromkeys(range(len(values)), found)
        return found.decode(values)

    def _known(self, schema_id: int) -> Group | str:
        found = self._groups.get(schema_id)
        if found is None:
            try:
                found = self._language.group(schema_id)
            except SchemaRefused as problem:
                found = f"schema {schema_id} cannot be used: {problem}"
            self._groups[schema_id] = found
        return found


def by_rows(
    values: "pa.Array", kind: "pa.DataType", decode: Any
) -> "tuple[pa.Array, dict[int, str]]":
    """Values one by one: `decode(bytes)` gives what pyarrow takes, or raises what it likes."""
    import pyarrow as pa

    rows: list[object] = []
    problems: dict[int, str] = {}
    for place, value in enumerate(values.to_pylist()):
        try:
            rows.append(decode(value[HEADER:]))
        except Exception as problem:  # noqa: BLE001 the libraries raise many kinds
            rows.append(None)
            text = f"{type(problem).__name__} {problem}".strip()
            problems[place] = f"the value does not fit its schema: {text}"
    try:
        return pa.array(rows, kind), problems
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return _one_by_one(rows, kind, problems)


def _one_by_one(
    rows: list[object], kind: "pa.DataType", problems: dict[int, str]
) -> "tuple[pa.Array, dict[int, str]]":
    import pyarrow as pa

    parts = []
    for place, row in enumerate(rows):
        try:
            parts.append(pa.array([row], kind))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as problem:
            problems[place] = f"the value does not fit the reader's schema: {problem}"
            parts.append(pa.nulls(1, kind))
    return pa.concat_arrays(parts), problems


def _only(raw: "pa.Array", problems: dict[int, str]) -> "pa.Array":
    """The values at some places; the others are null."""
    import pyarrow as pa

    if not problems:
        return pa.nulls(len(raw), pa.binary())
    return pa.array(
        [raw[place].as_py() if place in problems else None for place in range(len(raw))],
        pa.binary(),
    )
