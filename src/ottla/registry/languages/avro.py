"""Avro: parsing by the libraries avro (structure, names) and fastavro (defaults).

Rules kept here:
1. The canonical text is what Java's `Schema.toString()` prints, since Confluent's registry stores
   and compares that: attributes in its order, names without the namespace they are in, docs,
   defaults and properties kept.
2. The normalized text has full names and its other attributes sorted.
3. A reader reads a writer by the resolution rules of Avro's specification, as Java's
   `SchemaCompatibility` decides them.
"""

import json
import warnings
from collections.abc import Iterable
from typing import Any, Final

import avro.errors
import avro.name
import avro.schema
import fastavro.schema

from ottla.registry.languages import Dependency, SchemaError, SchemaSource
from ottla.registry.languages.avro_text import java_text, normalized_text

PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)
COMPLEX: Final = frozenset(("record", "error", "enum", "fixed", "array", "map"))


def parse(text: str, dependencies: Iterable[Dependency], normalize: bool) -> str:
    """The canonical text of a schema."""
    nodes = [_loaded(item.text) for item in dependencies]
    node = _loaded(text)
    _objects([*nodes, node], check_defaults=True)
    known: set[str] = set()
    for item in nodes:
        java_text(item, known)
    return normalized_text(node, known) if normalize else java_text(node, known)


def schema_object(source: SchemaSource) -> avro.schema.Schema:
    """The library's object for a schema."""
    nodes = [_loaded(item.text) for item in source.dependencies]
    return _objects([*nodes, _loaded(source.text)], check_defaults=False)


def formatted(source: SchemaSource, style: str) -> str:
    """With style `resolved`: the schema with the schemas it refers to put in their places."""
    if style != "resolved" or not source.dependencies:
        return source.text
    found = schema_object(source)
    return json.dumps(found.to_json(avro.name.Names()), separators=(",", ":"), ensure_ascii=False)


def _loaded(text: str) -> Any:
    try:
        return simplified(json.loads(text))
    except (ValueError, RecursionError):
        # Java's parser takes the name of a primitive type without quotes.
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise SchemaError("not valid JSON") from None


def simplified(node: Any) -> Any:
    """A schema in which a named type is always referred to as "Name", never {"type": "Name"}."""
    if isinstance(node, list):
        return [simplified(item) for item in node]
    if not isinstance(node, dict):
        return node
    kind = node.get("type")
    if isinstance(kind, str) and kind not in PRIMITIVES and kind not in COMPLEX:
        return kind
    changed = dict(node)
    for name in ("items", "values"):
        if name in changed:
            changed[name] = simplified(changed[name])
    if isinstance(changed.get("fields"), list):
        changed["fields"] = [
            {**field, "type": simplified(field["type"])}
            if isinstance(field, dict) and "type" in field
            else field
            for field in changed["fields"]
        ]
    return changed


def _objects(nodes: list[Any], *, check_defaults: bool) -> avro.schema.Schema:
    names = avro.name.Names()
    named: dict[str, Any] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unknown logical types are not an error
            for node in nodes:
                found = avro.schema.make_avsc_object(node, names)
                if check_defaults:
                    fastavro.schema.parse_schema(node, named_schemas=named, _write_hint=False)
    except avro.errors.AvroException as problem:
        raise SchemaError(str(problem)) from None
    except fastavro.schema.UnknownType as problem:
        raise SchemaError(f"unknown type {problem.name}") from None
    except fastavro.schema.SchemaParseException as problem:
        raise SchemaError(str(problem)) from None
    except RecursionError:
        raise SchemaError("nested too deeply") from None
    except (TypeError, ValueError, KeyError, AttributeError) as problem:
        # The libraries trust the shape of what they get.
        raise SchemaError(f"malformed: {problem}") from None
    return found
