"""JSON Schema: parsing and validation by the library jsonschema-rs, drafts 4 to 2020-12.

Rules kept here:
1. A schema without `$schema` is of draft 7, as for Confluent's serializers.
2. Nothing is fetched: a `$ref` to another document is answered from the registered references.
3. The canonical text is the JSON without white space, in the order it was written; the normalized
   one has its keys sorted.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import jsonschema_rs

from ottla.registry.languages import Dependency, SchemaError, SchemaSource

LOCAL: Final = "json-schema:///"
"""What the library puts before a relative reference."""
KNOWN_DIALECTS: Final = ("draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12")


def parse(text: str, dependencies: Iterable[Dependency], normalize: bool) -> str:
    """The canonical text of a schema."""
    node = loaded(text)
    documents = {item.name: loaded(item.text) for item in dependencies}
    try:
        _validator(node, documents)
    except jsonschema_rs.ValidationError as problem:
        raise SchemaError(problem.message) from None
    except jsonschema_rs.ReferencingError as problem:
        raise SchemaError(str(problem)) from None
    except ValueError as problem:
        raise SchemaError(str(problem)) from None
    return dumped(node, normalize=normalize)


def formatted(source: SchemaSource, style: str) -> str:
    """There is no other form."""
    return source.text


def loaded(text: str) -> Any:
    """The JSON value of a schema: an object or a boolean."""
    try:
        node = json.loads(text)
    except (ValueError, RecursionError):
        raise SchemaError("not valid JSON") from None
    if not isinstance(node, dict | bool):
        raise SchemaError("a JSON schema is an object or a boolean")
    return node


def dumped(node: Any, *, normalize: bool = False) -> str:
    """JSON without white space."""
    try:
        return json.dumps(node, separators=(",", ":"), ensure_ascii=False, sort_keys=normalize)
    except RecursionError:
        raise SchemaError("nested too deeply") from None


def find_document(uri: str, documents: Mapping[str, Any]) -> Any:
    """The document that a reference names: by its name, its `$id`, or the end of its path."""
    plain = uri.removeprefix(LOCAL).partition("#")[0]
    for name, document in documents.items():
        own_id = document.get("$id") if isinstance(document, dict) else None
        if plain in (name, own_id) or plain.endswith(f"/{name}"):
            return document
    raise ValueError(f"no reference for {plain}")


def _validator(node: Any, documents: Mapping[str, Any]) -> object:
    def retrieve(uri: str) -> Any:
        return find_document(uri, documents)

    dialect = node.get("$schema") if isinstance(node, dict) else None
    if dialect is None:
        # A base lets relative references be looked up; without one the library refuses them.
        return jsonschema_rs.Draft7Validator(node, retriever=retrieve, base_uri=LOCAL)
    if not isinstance(dialect, str) or not any(known in dialect for known in KNOWN_DIALECTS):
        raise SchemaError(f"unknown dialect {dialect!r}")
    return jsonschema_rs.validator_for(node, retriever=retrieve, base_uri=LOCAL)
