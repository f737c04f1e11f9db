"""Long requests in pieces, so that none of them holds the loop.

Rules kept here:
1. An API names the array of its request whose elements stand for themselves, and that of its reply
   where their answers are. A request with many of them is handled as several requests of at most
   `most` elements each, and their replies become one.
2. A request that cannot be divided, or an element of it, has at most MOST_UNDIVIDED elements.
3. What a piece says of the whole request (an error at the top) ends it.
4. Where a piece ends within an element, both halves of its answer are joined again.

A name that comes twice is noticed where both are in one piece.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from ottla.wire.fields import DecodeError
from ottla.wire.message import Message, Part

M = TypeVar("M", bound=Message)
Path = tuple[str, ...]

MOST_UNDIVIDED: Final = 50_000
MOST_IN_A_PIECE: Final = 200
MOST_TOGETHER: Final = 1000
"""For what is better written together: offsets of a group, partitions of a transaction."""


class Pieces(NamedTuple):
    """Which array of a request may be divided, and which array of the reply has the answers."""

    asked: Path
    answered: Path
    most: int = MOST_IN_A_PIECE


def pieces(asked: str, answered: str, most: int = MOST_IN_A_PIECE) -> Pieces:
    """Both paths are written with dots: `topics.partitions`."""
    return Pieces(tuple(asked.split(".")), tuple(answered.split(".")), most)


def divide(message: M, ways: tuple[Pieces, ...]) -> tuple[list[M], Pieces | None]:
    """The requests to be handled one after the other, and how their replies are joined.

    Raises DecodeError where there are too many elements to be handled at once.
    """
    for way in ways:
        if getattr(message, way.asked[0]):
            weight = _weight(message)
            if weight <= way.most:
                break
            found = list(_divided(message, way.asked, way.most))
            if not found:
                break
            return found, way
    else:
        weight = _weight(message)
    if weight > MOST_UNDIVIDED:
        raise DecodeError(f"{weight} elements in one {type(message).__name__}")
    return [message], None


def _divided(part: Any, path: Path, most: int) -> Iterator[Any]:
    """Parts like this one with at most this many elements each."""
    name, inner = path[0], path[1:]
    elements = getattr(part, name) or ()
    held: list[Any] = []
    weight = 0
    for element in elements:
        for each, own in _weighed(element, inner, most):
            if held and weight + own > most:
                yield replace(part, **{name: held})
                held, weight = [], 0
            held.append(each)
            weight += own
    if held:
        yield replace(part, **{name: held})


def _weighed(element: Any, inner: Path, most: int) -> Iterator[tuple[Any, int]]:
    """An element with its weight, or what it is divided into."""
    weight = _weight(element)
    if not inner or weight <= most or not getattr(element, inner[0]):
        if weight > MOST_UNDIVIDED:
            raise DecodeError(f"{weight} elements in one {type(element).__name__}")
        yield element, weight
        return
    for each in _divided(element, inner, most):
        yield each, _weight(each)


def _weight(part: Any) -> int:
    """How many elements its arrays have, and one for itself."""
    if not isinstance(part, Part):
        return 1
    total = 1
    for name, is_array, has_parts in _parts_of(type(part)):
        value = getattr(part, name)
        if not value:
            continue
        if not has_parts:
            total += len(value)
        elif is_array:
            total += sum(map(_weight, value))
        else:
            total += _weight(value)
    return total


@cache
def _parts_of(cls: type[Part]) -> list[tuple[str, bool, bool]]:
    """The fields that have elements: name, whether it is an array, and one of parts."""
    return [
        (field.name, field.array, not isinstance(field.type, str))
        for field in cls.FIELDS
        if field.array or not isinstance(field.type, str)
    ]


def refuses_all(answer: Message) -> bool:
    """True where a reply has an error at its top: no other piece is worth asking."""
    return bool(getattr(answer, "error_code", 0))


def join(whole: Part, more: Part, path: Path) -> None:
    """Add the answers of another piece to those of the pieces before."""
    name, inner = path[0], path[1:]
    found, others = getattr(whole, name), getattr(more, name)
    if inner and found and others and _are_halves(found[-1], others[0], inner[0]):
        join(found[-1], others[0], inner)
        others = others[1:]
    found += others


def _are_halves(one: Part, other: Part, apart: str) -> bool:
    return all(
        getattr(one, field.name) == getattr(other, field.name)
        for field in one.FIELDS
        if field.name != apart
    )
