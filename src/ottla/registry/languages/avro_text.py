"""Avro schemas as text: as Java's `Schema.toString()` prints them, and normalized.

The schemas were validated before: here they are only written.
"""

import json
from typing import Any, Final

PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)
_SCHEMA_WORDS: Final = frozenset(
    (
        "doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type",
        "aliases",
    )
)  # fmt: skip
_FIELD_WORDS: Final = frozenset(("default", "doc", "name", "order", "type", "aliases"))


def java_text(node: Any, known: set[str]) -> str:
    """What Java prints; the full names that it defines are added to `known`."""
    return _dumped(_Java(known).schema(node, ""))


def normalized_text(node: Any, known: set[str]) -> str:
    """The same for every order of attributes and every way to write names."""
    return _dumped(_Normalized(known).schema(node, ""))


def _dumped(node: Any) -> str:
    return json.dumps(node, separators=(",", ":"), ensure_ascii=False)


class _Java:
    def __init__(self, known: set[str]) -> None:
        self.known = known

    def schema(self, node: Any, space: str) -> Any:
        if isinstance(node, list):
            return [self.schema(item, space) for item in node]
        if isinstance(node, str):
            return node if node in PRIMITIVES else self.shown(self.full(node, space), space)
        kind = node["type"]
        if kind in PRIMITIVES:
            props = self.props(node, _SCHEMA_WORDS)
            return {"type": kind, **props} if props else kind
        if kind == "array":
            items = self.schema(node["items"], space)
            return {"type": kind, "items": items, **self.props(node, _SCHEMA_WORDS)}
        if kind == "map":
            values = self.schema(node["values"], space)
            return {"type": kind, "values": values, **self.props(node, _SCHEMA_WORDS)}
        return self.named(node, kind, space)

    def named(self, node: Any, kind: str, space: str) -> Any:
        full = _full_name(node, space)
        self.known.add(full)
        here, _, name = full.rpartition(".")
        shown: dict[str, Any] = {"type": kind, **self.name(name, here, space)}
        if "doc" in node:
            shown["doc"] = node["doc"]
        words = _SCHEMA_WORDS
        if kind == "enum":
            shown["symbols"] = node["symbols"]
            if "default" in node:
                shown["default"] = node["default"]
            words = words | {"default"}
        elif kind == "fixed":
            shown["size"] = node["size"]
        else:
            shown["fields"] = [self.field(field, here) for field in node["fields"]]
        shown |= self.props(node, words)
        if node.get("aliases"):
            shown["aliases"] = [self.alias(alias, here) for alias in node["aliases"]]
        return shown

    def field(self, field: Any, space: str) -> dict[str, Any]:
        shown = {"name": field["name"], "type": self.schema(field["type"], space)}
        if "doc" in field:
            shown["doc"] = field["doc"]
        if "default" in field:
            shown["default"] = field["default"]
        if field.get("order", "ascending") != "ascending":
            shown["order"] = field["order"]
        if field.get("aliases"):
            shown["aliases"] = field["aliases"]
        return {**shown, **self.props(field, _FIELD_WORDS)}

    def name(self, name: str, here: str, space: str) -> dict[str, str]:
        return {"name": name} if here == space else {"name": name, "namespace": here}

    def alias(self, alias: str, space: str) -> str:
        return alias.removeprefix(f"{space}.") if space else alias

    def full(self, name: str, space: str) -> str:
        within = f"{space}.{name}"
        return within if "." not in name and space and within in self.known else name

    def shown(self, full: str, space: str) -> str:
        here, _, name = full.rpartition(".")
        return name if here == space else full

    def props(self, node: Any, words: frozenset[str]) -> dict[str, Any]:
        return {name: value for name, value in node.items() if name not in words}


class _Normalized(_Java):
    """Full names, and sorted properties."""

    def name(self, name: str, here: str, space: str) -> dict[str, str]:
        return {"name": f"{here}.{name}" if here else name}

    def alias(self, alias: str, space: str) -> str:
        return alias if "." in alias or not space else f"{space}.{alias}"

    def shown(self, full: str, space: str) -> str:
        return full

    def props(self, node: Any, words: frozenset[str]) -> dict[str, Any]:
        props = super().props(node, words)
        return {name: _sorted(props[name]) for name in sorted(props)}


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _full_name(node: Any, space: str) -> str:
    name: str = node["name"]
    if "." in name:
        return name.lstrip(".")
    space = node.get("namespace", space)
    return f"{space}.{name}" if space else name
