"""The child process that works on schemas: `python -m ottla.registry.languages.worker`.

Rules kept here:
1. A request is a frame on stdin (a length of four bytes, MessagePack), its answer one on stdout, in
   order. When stdin ends, so does the process.
2. A language is imported when its first schema comes: the registry of a site that has Avro only
   does not pay for protoc.
3. Memory is bounded (RLIMIT_AS): a schema that needs more is refused, and nothing else suffers.
"""

import os
import resource
import sys
from collections.abc import Callable
from struct import Struct as Bytes
from typing import BinaryIO, Final

import msgspec

from ottla.registry.languages import Dependency, Difference, SchemaError, SchemaSource

LENGTH: Final = Bytes(">I")
MEMORY_LIMIT: Final = 1 << 30


class Parse(msgspec.Struct, tag=True, frozen=True):
    """Asks for the canonical text."""

    kind: str
    source: SchemaSource
    normalize: bool = False


class Compare(msgspec.Struct, tag=True, frozen=True):
    """Asks what is incompatible, for each of the old schemas."""

    kind: str
    new: SchemaSource
    old: list[SchemaSource]
    backward: bool
    forward: bool


class Format(msgspec.Struct, tag=True, frozen=True):
    """Asks for another form of the text."""

    kind: str
    source: SchemaSource
    style: str


Request = Parse | Compare | Format


class Answer(msgspec.Struct, frozen=True):
    """One of a text, the differences from each old schema, or why there is neither."""

    text: str | None = None
    messages: list[list[str]] | None = None
    error: str | None = None


def answer(request: Request) -> Answer:
    """Work on one request."""
    try:
        match request:
            case Parse(kind, source, normalize):
                return Answer(text=_parser(kind)(source.text, source.dependencies, normalize))
            case Format(kind, source, style):
                return Answer(text=_formatter(kind)(source, style))
            case Compare(kind, new, old):
                return Answer(messages=[_messages(request, kind, new, one) for one in old])
    except SchemaError as problem:
        return Answer(error=str(problem))
    except RecursionError:
        return Answer(error="nested too deeply")
    except MemoryError:
        return Answer(error="it needs too much memory")


def _messages(request: Compare, kind: str, new: SchemaSource, old: SchemaSource) -> list[str]:
    differences = _differ(kind)
    found = []
    if request.backward:
        found += [item.shown("new", "old") for item in differences(new, old)]
    if request.forward:
        found += [item.shown("old", "new") for item in differences(old, new)]
    return found


def _parser(kind: str) -> Callable[[str, tuple[Dependency, ...], bool], str]:
    match kind:
        case "AVRO":
            from ottla.registry.languages import avro

            return avro.parse
        case "JSON":
            from ottla.registry.languages import json_schema

            return json_schema.parse
        case _:
            from ottla.registry.languages import protobuf

            return protobuf.parse


def _formatter(kind: str) -> Callable[[SchemaSource, str], str]:
    match kind:
        case "AVRO":
            from ottla.registry.languages import avro

            return avro.formatted
        case "JSON":
            from ottla.registry.languages import json_schema

            return json_schema.formatted
        case _:
            from ottla.registry.languages import protobuf

            return protobuf.formatted


def _differ(kind: str) -> Callable[[SchemaSource, SchemaSource], list[Difference]]:
    match kind:
        case "AVRO":
            from ottla.registry.languages import avro_diff

            return avro_diff.differences
        case "JSON":
            from ottla.registry.languages import json_diff

            return json_diff.differences
        case _:
            from ottla.registry.languages import proto_diff

            return proto_diff.differences


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until there are no more requests."""
    decoder = msgspec.msgpack.Decoder(Request)
    while len(head := requests.read(LENGTH.size)) == LENGTH.size:
        (size,) = LENGTH.unpack(head)
        body = msgspec.msgpack.encode(answer(decoder.decode(requests.read(size))))
        answers.write(LENGTH.pack(len(body)) + body)
        answers.flush()


def main() -> None:
    """Serve the process that started this one."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    # Whatever a library prints must not stand between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        serve(sys.stdin.buffer, answers)
    except (KeyboardInterrupt, BrokenPipeError):
        pass


if __name__ == "__main__":
    main()
