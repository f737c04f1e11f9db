"""Requests as large as a broker takes: for each API, and each array in it, as many elements as fit.

They are made from the field specs of the messages, so a new API is in the corpus by itself. An
array's elements are either all the same and name what exists, or all different and name what does
not.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from ottla.api import load_all, registry
from ottla.wire import codec
from ottla.wire.fetch import MOST_PARTITIONS as MOST_FETCHED
from ottla.wire.headers import write_request_header
from ottla.wire.message import Field, Message, Part
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.produce import MOST_PARTITIONS as MOST_PRODUCED
from tests.wire.every_message import MESSAGES

TOPIC = "here"
GROUP = "here"

MOST: dict[type[Message], int] = {FetchRequest: MOST_FETCHED, ProduceRequest: MOST_PRODUCED}
"""Requests with more elements are refused, which is cheap: as many as are allowed are worse."""

_ZERO = {"bool": False, "float64": 0.0, "bytes": b"", "records": None}


class Hostile(NamedTuple):
    """One request of the corpus, without its size."""

    name: str
    frame: bytes


def requests(largest: int, known: UUID, only: str = "") -> Iterator[Hostile]:
    """Those with `only` in their names, none larger than that.

    `known` is the id of the topic that exists.
    """
    load_all()
    for cls in MESSAGES:
        endpoint = registry.ENDPOINTS.get(cls.API_KEY)
        if endpoint is None or not cls.__name__.endswith("Request"):
            continue
        version = endpoint.last
        for path in _arrays(cls, version):
            for distinct in (False, True):
                name = f"{cls.__name__}.{'.'.join(path)} {'distinct' if distinct else 'same'}"
                if only in name:
                    maker = _Maker(version, path, distinct, known)
                    yield Hostile(name, maker.frame(cls, largest))


def _arrays(cls: type[Part], version: int, seen: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where arrays are in a message, the outer before the inner."""
    for field in cls.FIELDS:
        if not field.is_in(version):
            continue
        here = (*seen, field.name)
        if field.array:
            yield here
        if not isinstance(field.type, str):
            yield from _arrays(field.type, version, here)


class _Maker(NamedTuple):
    """Fills messages: the array at a path with many elements, all others with one."""

    version: int
    path: tuple[str, ...]
    distinct: bool
    known: UUID

    def frame(self, cls: type[Message], largest: int) -> bytes:
        header = write_request_header(cls.API_KEY, self.version, 1, "stalls")
        few, many = (len(codec.encode(self._message(cls, n), self.version)) for n in (1, 101))
        count = (largest - len(header) - few - 100) // max(
            1, (many - few + 99) // 100 + 5 * self.distinct
        )
        count = min(count, MOST.get(cls, count))
        return header + codec.encode(self._message(cls, count), self.version)

    def _message(self, cls: type[Message], count: int) -> Message:
        message: Message = self._part(cls, (), count, 0)
        return message

    def _part(self, cls: type[Any], at: tuple[str, ...], count: int, number: int) -> Any:
        return cls(
            **{
                field.name: self._value(field, (*at, field.name), count, number)
                for field in cls.FIELDS
                if field.is_in(self.version) and (field.tag is None or field.name in self.path)
            }
        )

    def _value(self, field: Field, at: tuple[str, ...], count: int, number: int) -> Any:
        if not field.array:
            return self._single(field, at, count, number)
        if at != self.path:
            return [self._single(field, at, count, number)]
        if self.distinct:
            return [self._single(field, at, count, each) for each in range(count)]
        return [self._single(field, at, count, 0)] * count

    def _single(self, field: Field, at: tuple[str, ...], count: int, number: int) -> Any:
        kind = field.type
        if not isinstance(kind, str):
            return self._part(kind, at, count, number)
        is_many = self.distinct and at[: len(self.path)] == self.path
        if kind == "string":
            return f"x{number:06}" if is_many else _known_name(field.name)
        if kind == "uuid":
            return UUID(int=number + 1) if is_many else self.known
        if kind in _ZERO:
            return _ZERO[kind]
        if field.name in ("session_id", "session_epoch", "replica_id", "max_wait_ms"):
            return {"replica_id": -1}.get(field.name, 0)
        if kind == "int8":
            return 2  # a topic, where resources are meant; exact, where filters are
        if field.name == "timeout_ms":
            return 100
        if field.name == "acks":
            return 1
        if is_many and kind == "int32":
            return number
        return 0


def _known_name(field: str) -> str:
    return GROUP if "group" in field or "key" in field else TOPIC
