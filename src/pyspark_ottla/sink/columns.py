"""The columns of a sink, as in Spark's Kafka sink, checked when a query is planned (pure).

| column    | type                                        | needed                       |
|-----------|---------------------------------------------|------------------------------|
| value     | string or binary; with a format a struct    | yes                          |
| key       | string or binary                            | no                           |
| topic     | string                                      | without the option `topic`   |
| partition | int                                         | no                           |
| headers   | array<struct<key:string,value:binary>>      | no                           |

Other columns are left alone.
"""

from typing import TYPE_CHECKING, NamedTuple

from pyspark_ottla.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


class Columns(NamedTuple):
    """Places of the columns in a row; None for those that are not there."""

    value: int
    key: int | None
    topic: int | None
    partition: int | None
    headers: int | None


def columns_of(schema: "StructType", topic: str | None, *, of_format: bool = False) -> Columns:
    """Find the columns; `topic` is the option, with which the column topic is not looked at. With
    a format the column value has another type.
    """
    from pyspark.sql.types import BinaryType, IntegerType, StringType

    names = schema.fieldNames()
    for name in ("value", "key", "topic", "partition", "headers"):
        if names.count(name) > 1:
            raise OptionError(f"there are {names.count(name)} columns {name}")
    if "value" not in names:
        raise OptionError(
            f"a sink needs a column value; there are only {', '.join(names) or 'no columns'}"
        )
    if topic is None and "topic" not in names:
        raise OptionError("a sink needs the option topic, or a column topic")
    wanted = {
        "value": ((StringType, BinaryType), "string or binary"),
        "key": ((StringType, BinaryType), "string or binary"),
        "topic": ((StringType,), "string"),
        "partition": ((IntegerType,), "int"),
    }
    if topic is not None:
        del wanted["topic"]
    if of_format:
        del wanted["value"]
    for name, (kinds, text) in wanted.items():
        if name in names and not isinstance(schema[name].dataType, kinds):
            raise _wrong(name, text, schema[name].dataType)
    if "headers" in names and not _are_headers(schema["headers"].dataType):
        text = "array<struct<key:string,value:binary>>"
        raise _wrong("headers", text, schema["headers"].dataType)
    places = {name: place for place, name in enumerate(names)}
    return Columns(
        places["value"],
        places.get("key"),
        None if topic is not None else places["topic"],
        places.get("partition"),
        places.get("headers"),
    )


def _are_headers(kind: "DataType") -> bool:
    from pyspark.sql.types import ArrayType, BinaryType, StringType, StructType

    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in kind.elementType]
    return fields == [("key", StringType), ("value", BinaryType)]


def _wrong(name: str, expected: str, found: "DataType") -> OptionError:
    return OptionError(f"column {name} is {found.simpleString()}, but must be {expected}")
