"""Avro schemas as Spark's types, and the other way round, as in Spark's own Avro functions.

Rules kept here:
1. A union with null is a type that may be null. `int` with `long`, and `float` with `double`, are
   the wider one. Other unions, and types within themselves, are no columns: an error says where.
2. A schema that is made from columns lets every field that may be null be left out: it has a
   default, so that readers and writers of other versions get along.
"""

from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_ottla.errors import OptionError

_PLAIN: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
}
_WIDER: Final = {
    frozenset(("int", "long")): "long",
    frozenset(("float", "double")): "double",
}


def spark_type(node: Any, named: dict[str, Any], where: str = "value") -> tuple[DataType, bool]:
    """The type of a schema as fastavro has parsed it, and whether it may be null."""
    return _type(node, named, where, ())


def without_null(node: list[Any]) -> list[Any]:
    """The branches of a union that are not null."""
    return [each for each in node if each != "null" and each != {"type": "null"}]


def _type(
    node: Any, named: dict[str, Any], where: str, inside: tuple[str, ...]
) -> tuple[DataType, bool]:
    if isinstance(node, str):
        if node in _PLAIN:
            return _PLAIN[node], False
        if node in inside:
            raise OptionError(f"{where} holds itself ({node}): it cannot be a column")
        if node in named:
            return _type(named[node], named, where, inside)
        raise OptionError(f"{where} is of the Avro type {node}: it cannot be a column")
    if isinstance(node, list):
        return _union(node, named, where, inside)
    kind = node["type"]
    if isinstance(kind, dict | list):
        return _type(kind, named, where, inside)
    logical = _logical(node)
    if logical is not None:
        return logical, False
    if kind in ("record", "error"):
        within = (*inside, node["name"])
        fields = []
        for field in node["fields"]:
            found, nullable = _type(field["type"], named, f"{where}.{field['name']}", within)
            fields.append(StructField(field["name"], found, nullable))
        return StructType(fields), False
    if kind == "enum":
        return StringType(), False
    if kind == "fixed":
        return BinaryType(), False
    if kind == "array":
        found, nullable = _type(node["items"], named, f"{where}[]", inside)
        return ArrayType(found, nullable), False
    if kind == "map":
        found, nullable = _type(node["values"], named, f"{where}{{}}", inside)
        return MapType(StringType(), found, nullable), False
    return _type(kind, named, where, inside)


def _union(
    node: list[Any], named: dict[str, Any], where: str, inside: tuple[str, ...]
) -> tuple[DataType, bool]:
    branches = without_null(node)
    nullable = len(branches) < len(node)
    if len(branches) == 1:
        return _type(branches[0], named, where, inside)[0], nullable
    wider = _WIDER.get(frozenset(map(str, branches)))
    if wider is None:
        raise OptionError(
            f"{where} is a union of {len(branches)} types: it cannot be a column. Only a type with "
            "null, int with long, and float with double can"
        )
    return _PLAIN[wider], nullable


def _logical(node: dict[str, Any]) -> DataType | None:
    match node["type"], node.get("logicalType"):
        case "int", "date":
            return DateType()
        case "long", "timestamp-millis" | "timestamp-micros":
            return TimestampType()
        case "long", "local-timestamp-millis" | "local-timestamp-micros":
            return TimestampNTZType()
        case "bytes" | "fixed", "decimal":
            return DecimalType(node["precision"], node.get("scale", 0))
    return None


def avro_schema_of(kind: StructType) -> dict[str, Any]:
    """The schema of columns; OptionError for a type that Avro lacks."""
    return _record(kind, "Value")


def _record(kind: StructType, name: str) -> dict[str, Any]:
    fields = []
    for field in kind:
        schema = _schema(field.dataType, f"{name}_{field.name}")
        item: dict[str, Any] = {"name": field.name, "type": schema}
        if field.nullable:
            item |= {"type": ["null", schema], "default": None}
        fields.append(item)
    return {"type": "record", "name": name, "fields": fields}


def _schema(kind: DataType, name: str) -> Any:
    match kind:
        case ByteType() | ShortType() | IntegerType():
            return "int"
        case BooleanType():
            return "boolean"
        case LongType():
            return "long"
        case FloatType():
            return "float"
        case DoubleType():
            return "double"
        case StringType():
            return "string"
        case BinaryType():
            return "bytes"
        case DateType():
            return {"type": "int", "logicalType": "date"}
        case TimestampType():
            return {"type": "long", "logicalType": "timestamp-micros"}
        case TimestampNTZType():
            return {"type": "long", "logicalType": "local-timestamp-micros"}
        case DecimalType():
            decimal = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
            return {"type": "bytes", **decimal}
        case ArrayType():
            items = _schema(kind.elementType, f"{name}_item")
            return {"type": "array", "items": ["null", items] if kind.containsNull else items}
        case MapType() if isinstance(kind.keyType, StringType):
            values = _schema(kind.valueType, f"{name}_value")
            return {"type": "map", "values": ["null", values] if kind.valueContainsNull else values}
        case StructType():
            return _record(kind, name)
    raise OptionError(f"column {name}: Avro has no type for {kind.simpleString()}")
