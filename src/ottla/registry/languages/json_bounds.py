"""The keywords of JSON schemas that bound a value: lengths, numbers, patterns, counts, types."""

from typing import Any, Final

from ottla.registry.languages import Difference
from ottla.registry.languages.json_places import difference

ALL_TYPES: Final = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))
UPPER: Final = {
    "maxLength": ("MAX_LENGTH", "string"),
    "maximum": ("MAXIMUM", "number"),
    "exclusiveMaximum": ("EXCLUSIVE_MAXIMUM", "number"),
    "maxProperties": ("MAX_PROPERTIES", "object"),
}
LOWER: Final = {
    "minLength": ("MIN_LENGTH", "string"),
    "minimum": ("MINIMUM", "number"),
    "exclusiveMinimum": ("EXCLUSIVE_MINIMUM", "number"),
    "minProperties": ("MIN_PROPERTIES", "object"),
}


def types_of(schema: Any) -> frozenset[str]:
    """The types that a schema accepts; integer is within number."""
    kind = schema.get("type")
    if kind is None:
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        return ALL_TYPES if values is None else frozenset(map(_type_of, values))
    kinds = frozenset([kind] if isinstance(kind, str) else kind)
    return kinds | {"integer"} if "number" in kinds else kinds


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def bounds(old: Any, new: Any, path: str) -> list[Difference]:
    """The bounds of strings, numbers and objects that became tighter."""
    kinds = types_of(old)
    found = []
    for keywords, tighter in ((UPPER, "DECREASED"), (LOWER, "INCREASED")):
        for keyword, (name, kind) in keywords.items():
            if kind in kinds or (kind == "number" and "integer" in kinds):
                found += _bound(old, new, f"{path}/{keyword}", keyword, name, tighter)
    if "string" in kinds and "pattern" in new and new["pattern"] != old.get("pattern"):
        kind = "PATTERN_CHANGED" if "pattern" in old else "PATTERN_ADDED"
        found.append(difference(kind, f"{path}/pattern"))
    if kinds & {"number", "integer"}:
        found += _multiple(old, new, f"{path}/multipleOf")
    return found


def array_bounds(old: Any, new: Any, path: str) -> list[Difference]:
    """The bounds of arrays that became tighter."""
    found = _bound(old, new, f"{path}/maxItems", "maxItems", "MAX_ITEMS", "DECREASED")
    found += _bound(old, new, f"{path}/minItems", "minItems", "MIN_ITEMS", "INCREASED")
    if new.get("uniqueItems") and not old.get("uniqueItems"):
        found.append(difference("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems"))
    return found


def _bound(
    old: Any, new: Any, path: str, keyword: str, name: str, tighter: str
) -> list[Difference]:
    now, was = new.get(keyword), old.get(keyword)
    if now is None or now is False:
        return []
    if now is True:  # draft 4: exclusiveMaximum is a flag
        return [] if was is True else [difference(f"{name}_ADDED", path)]
    if was is None or isinstance(was, bool):
        vacuous = keyword.startswith("min") and now == 0 and name != "MINIMUM"
        return [] if vacuous else [difference(f"{name}_ADDED", path)]
    is_tighter = now < was if tighter == "DECREASED" else now > was
    return [difference(f"{name}_{tighter}", path)] if is_tighter else []


def _multiple(old: Any, new: Any, path: str) -> list[Difference]:
    now, was = new.get("multipleOf"), old.get("multipleOf")
    if now is None or now == was:
        return []
    if was is None:
        return [difference("MULTIPLE_OF_ADDED", path)]
    if was % now == 0:
        return []
    return [difference("MULTIPLE_OF_CHANGED", path)]
