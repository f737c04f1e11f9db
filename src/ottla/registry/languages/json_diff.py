"""What a new JSON schema refuses of data that an old one accepts.

Rules kept here:
1. The new schema is compared with the old one place by place, as Confluent's registry does: each
   keyword may be loosened, not tightened. A new required property may have a default.
2. A property that is new is safe where the old schema was closed, and a property that is gone is
   safe where the new one is open: else old data may have it with another type.
3. References are followed; a pair of schemas that is being compared already is taken as compatible.
"""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from ottla.registry.languages import Difference, SchemaSource
from ottla.registry.languages.json_bounds import array_bounds, bounds, types_of
from ottla.registry.languages.json_places import difference
from ottla.registry.languages.json_schema import find_document, loaded

SUMS: Final = ("oneOf", "anyOf")
DEEPEST: Final = 200


def differences(new: SchemaSource, old: SchemaSource) -> list[Difference]:
    """What a reader with `new` refuses of a writer with `old`."""
    comparison = _Comparison(_Document(old), _Document(new))
    return comparison.compare(comparison.old.root, comparison.new.root, "#")


class _Document:
    def __init__(self, source: SchemaSource) -> None:
        self.root = loaded(source.text)
        self._others = {item.name: loaded(item.text) for item in source.dependencies}
        self._homes: dict[int, Any] = {}
        """The document of each schema that was reached by a reference to another one."""

    def resolved(self, schema: Any) -> Any:
        """The schema that a reference leads to."""
        for _ in range(DEEPEST):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema
            home = self._homes.get(id(schema), self.root)
            target = self._target(schema["$ref"], home)
            schema = target
        return True

    def _target(self, ref: str, home: Any) -> Any:
        uri, _, fragment = ref.partition("#")
        document = home
        own_id = home.get("$id") if isinstance(home, dict) else None
        if uri and uri != own_id:
            try:
                document = find_document(uri, self._others)
            except ValueError:
                return True
        found = _pointed(document, unquote(fragment))
        if document is not self.root:
            self._note_home(found, document)
        return found

    def _note_home(self, schema: Any, home: Any) -> None:
        waiting = [schema]
        while waiting:
            item = waiting.pop()
            if isinstance(item, dict) and id(item) not in self._homes:
                self._homes[id(item)] = home
                waiting += item.values()
            elif isinstance(item, list):
                waiting += item


def _pointed(document: Any, pointer: str) -> Any:
    if pointer and not pointer.startswith("/"):
        return _anchored(document, pointer)
    node = document
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        else:
            return True
    return node


def _anchored(document: Any, anchor: str) -> Any:
    waiting = [document]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if anchor in (item.get("$anchor"), str(item.get("$id", "")).removeprefix("#")):
                return item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return True


class _Comparison:
    def __init__(self, old: _Document, new: _Document) -> None:
        self.old = old
        self.new = new
        self._compared: set[tuple[int, int]] = set()
        self._depth = 0

    def compare(self, old: Any, new: Any, path: str) -> list[Difference]:
        old, new = self.old.resolved(old), self.new.resolved(new)
        if new is True or new == {} or old is False:
            return []
        if new is False:
            return [difference("TYPE_CHANGED", path)]
        if old is True:
            old = {}
        pair = id(old), id(new)
        if old == new and "$ref" not in repr(new):
            return []
        if pair in self._compared or self._depth > DEEPEST:
            return []
        self._compared.add(pair)
        self._depth += 1
        try:
            return self._all(old, new, path)
        finally:
            self._depth -= 1
            self._compared.discard(pair)

    def _all(self, old: Any, new: Any, path: str) -> list[Difference]:
        found = self._types(old, new, path)
        if found:
            return found
        found += _enums(old, new, path)
        found += bounds(old, new, path)
        kinds = types_of(old)
        if "object" in kinds:
            found += self._objects(old, new, path)
        if "array" in kinds:
            found += array_bounds(old, new, path) + self._items(old, new, path)
        return found + self._combined(old, new, path) + self._not(old, new, path)

    def _types(self, old: Any, new: Any, path: str) -> list[Difference]:
        before, after = types_of(old), types_of(new)
        if "number" in after:
            before = before - {"integer"}
        if before <= after:
            return []
        for keyword in (*SUMS, "allOf"):
            # The types may stand in the branches instead.
            if "type" not in old and keyword in old:
                return []
        kind = "TYPE_NARROWED" if before & after else "TYPE_CHANGED"
        return [difference(kind, path)]

    def _objects(self, old: Any, new: Any, path: str) -> list[Difference]:
        found: list[Difference] = []
        before: Mapping[str, Any] = old.get("properties", {})
        after: Mapping[str, Any] = new.get("properties", {})
        required_before, required_after = set(_names(old)), set(_names(new))
        for name, schema in before.items():
            place = f"{path}/properties/{name}"
            if name in after:
                found += self.compare(schema, after[name], place)
                continue
            rest = _rest(new, name)
            if rest is False and schema is not False:
                found.append(difference("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", place))
            elif rest is not True and self.compare(schema, rest, place):
                found.append(
                    difference(
                        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", place
                    )
                )
        for name, schema in after.items():
            if name not in before:
                found += self._added(old, name, schema, path, name in required_after)
        for name in sorted(required_after - required_before):
            known = self.new.resolved(after.get(name, True))
            if name in after and name not in before:
                continue  # reported above
            if not (isinstance(known, dict) and "default" in known):
                place = f"{path}/required/{name}" if name not in after else f"{path}/properties/"
                found.append(
                    difference("REQUIRED_ATTRIBUTE_ADDED", place + (name if name in after else ""))
                )
        found += self._additional(old, new, path)
        return found + self._dependencies(old, new, path)

    def _added(
        self, old: Any, name: str, schema: Any, path: str, required: bool
    ) -> list[Difference]:
        place = f"{path}/properties/{name}"
        resolved = self.new.resolved(schema)
        rest = _rest(old, name)
        if rest is True:
            if resolved is True or resolved == {}:
                return []
            return [difference("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", place)]
        if rest is not False and self.compare(rest, schema, place):
            kind = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            return [difference(kind, place)]
        if required and not (isinstance(resolved, dict) and "default" in resolved):
            return [difference("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", place)]
        return []

    def _additional(self, old: Any, new: Any, path: str) -> list[Difference]:
        before = old.get("additionalProperties", True)
        after = new.get("additionalProperties", True)
        place = f"{path}/additionalProperties"
        if before is False or after is True or after == {}:
            return []
        if after is False:
            return [difference("ADDITIONAL_PROPERTIES_REMOVED", place)]
        if before is True or before == {}:
            return [difference("ADDITIONAL_PROPERTIES_NARROWED", place)]
        return self.compare(before, after, place)

    def _dependencies(self, old: Any, new: Any, path: str) -> list[Difference]:
        found: list[Difference] = []
        for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
            before, after = old.get(keyword, {}), new.get(keyword, {})
            for name, now in after.items():
                place = f"{path}/{keyword}/{name}"
                was = before.get(name)
                if isinstance(now, list):
                    known = was if isinstance(was, list) else []
                    if set(now) - set(known):
                        kind = "EXTENDED" if known else "ADDED"
                        found.append(difference(f"DEPENDENCY_ARRAY_{kind}", place))
                elif was is None:
                    found.append(difference("DEPENDENCY_SCHEMA_ADDED", place))
                elif not isinstance(was, list):
                    found += self.compare(was, now, place)
        return found

    def _items(self, old: Any, new: Any, path: str) -> list[Difference]:
        before, rest_before = _tuple(old)
        after, rest_after = _tuple(new)
        found: list[Difference] = []
        for number in range(max(len(before), len(after))):
            place = f"{path}/items/{number}"
            was = before[number] if number < len(before) else rest_before
            now = after[number] if number < len(after) else rest_after
            if number >= len(after) and now is False and was is not False:
                found.append(difference("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", place))
            elif number >= len(before) and was is True and now not in (True, {}):
                found.append(difference("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", place))
            else:
                found += self.compare(was, now, place)
        if rest_after is False and rest_before is not False:
            found.append(difference("ADDITIONAL_ITEMS_REMOVED", f"{path}/additionalItems"))
        else:
            found += self.compare(rest_before, rest_after, f"{path}/items")
        return found

    def _combined(self, old: Any, new: Any, path: str) -> list[Difference]:
        found = []
        after_all = new.get("allOf", [])
        before_all = old.get("allOf", [])
        plain = {name: value for name, value in old.items() if name not in (*SUMS, "allOf")}
        for number, branch in enumerate(after_all):
            sources = before_all or [plain]
            if not any(not self.compare(one, branch, path) for one in [*sources, plain]):
                kind = "COMBINED_TYPE_SUBSCHEMAS_CHANGED" if before_all else "PRODUCT_TYPE_EXTENDED"
                found.append(difference(kind, f"{path}/allOf/{number}"))
        after_key = next((key for key in SUMS if key in new), None)
        before_key = next((key for key in SUMS if key in old), None)
        if after_key is None:
            if before_key is not None and "type" not in old:
                rest = {name: value for name, value in new.items() if name != "allOf"}
                for number, branch in enumerate(old[before_key]):
                    if self.compare(branch, rest, f"{path}/{before_key}/{number}"):
                        found.append(difference("SUM_TYPE_NARROWED", path))
                        break
            return found
        if before_key == "anyOf" and after_key == "oneOf":
            return [*found, difference("COMBINED_TYPE_CHANGED", path)]
        branches = old[before_key] if before_key is not None else [plain]
        unmatched = self._unmatched(branches, new[after_key], path)
        if unmatched:
            if before_key is None:
                found.append(difference("TYPE_CHANGED", path))
            elif len(new[after_key]) < len(branches):
                found.append(difference("SUM_TYPE_NARROWED", path))
            else:
                found.append(difference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path))
        return found

    def _unmatched(self, before: list[Any], after: list[Any], path: str) -> int:
        """How many old branches no new branch accepts."""
        return sum(all(self.compare(branch, one, path) for one in after) for branch in before)

    def _not(self, old: Any, new: Any, path: str) -> list[Difference]:
        if "not" not in new:
            return []
        if "not" not in old:
            return [difference("NOT_TYPE_EXTENDED", f"{path}/not")]
        turned = _Comparison(self.new, self.old)
        if turned.compare(new["not"], old["not"], path):
            return [difference("NOT_TYPE_EXTENDED", f"{path}/not")]
        return []


def _enums(old: Any, new: Any, path: str) -> list[Difference]:
    after = _values(new)
    if after is None:
        return []
    before = _values(old)
    if before is None:
        return [difference("ENUM_ARRAY_NARROWED", f"{path}/enum")]
    if all(value in after for value in before):
        return []
    overlap = any(value in after for value in before)
    kind = "ENUM_ARRAY_NARROWED" if overlap else "ENUM_ARRAY_CHANGED"
    return [difference(kind, f"{path}/enum")]


def _values(schema: Any) -> list[tuple[str, Any]] | None:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values is None:
        return None
    return [("boolean" if isinstance(value, bool) else "", value) for value in values]


def _names(schema: Any) -> list[str]:
    required = schema.get("required", [])
    return required if isinstance(required, list) else []


def _rest(schema: Any, name: str) -> Any:
    """What holds for a property that `properties` does not name: True, False or a schema."""
    for pattern, found in schema.get("patternProperties", {}).items():
        try:
            if re.search(pattern, name):
                return found
        except re.error:
            continue
    rest = schema.get("additionalProperties", True)
    return True if rest == {} else rest


def _tuple(schema: Any) -> tuple[list[Any], Any]:
    """The schemas of the first items, and of the rest."""
    items = schema.get("items", True)
    if "prefixItems" in schema:
        return schema["prefixItems"], items
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return [], items
