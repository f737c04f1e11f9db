"""How many bytes the fields of messages take, at least and at most, and how many they may be."""

import sys

from ottla.wire.message import Message, Part

FIXED_SIZE = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""Struct format and size of each primitive that always takes the same number of bytes."""

LONGEST_STRING = 0x7FFF
"""Kafka holds strings to what a classic (int16) length can say, in compact form too."""

MOST_ELEMENTS = 200_000
"""Of all arrays of a request together: an element takes far more memory than its bytes."""


def most_elements(cls: type[Message]) -> int:
    """How many elements the arrays of a message may have together."""
    return MOST_ELEMENTS if cls.__name__.endswith("Request") else sys.maxsize


def smallest_size(kind: str | type[Part], version: int, flexible: bool) -> int:
    """Return the least number of bytes that a value can take in a version."""
    if isinstance(kind, str):
        if kind in FIXED_SIZE:
            return FIXED_SIZE[kind][1]
        return 1 if flexible else 2 if kind == "string" else 4
    total = 1 if flexible else 0
    for field in kind.FIELDS:
        if not field.is_in(version) or field.tag is not None:
            continue
        if field.array:
            total += 1 if flexible else 4
        elif not isinstance(field.type, str) and field.is_nullable_in(version):
            total += 1
        else:
            total += smallest_size(field.type, version, flexible)
    return total
