"""Messages to bytes and back, for each message class of `ottla.wire.messages` and each version.

What does the work is made at the first use of a message and version: readers in C where they could
be built at install, else functions in Python, as all writers are.

Rules kept here:
1. Bytes that are not such a message raise DecodeError, and nothing else.
2. What follows a message in the buffer is left alone, as Kafka does.
3. A message that the version cannot carry raises EncodeError, and nothing else.
"""

from collections.abc import Callable
from struct import error as struct_error
from typing import Any, TypeVar

from ottla.wire.fields import DecodeError, EncodeError
from ottla.wire.message import Message
from ottla.wire.reader import compile_reader
from ottla.wire.writer import compile_parts_writer, compile_writer

try:
    from ottla.wire.native import reading
except ImportError:  # There was no compiler at install.
    MessageReader = None
else:
    MessageReader = reading.MessageReader

__all__ = [
    "DecodeError",
    "EncodeError",
    "MessageReader",
    "decode",
    "decode_prefix",
    "encode",
    "encode_parts",
]

M = TypeVar("M", bound=Message)

_PROBLEMS = (IndexError, struct_error, UnicodeDecodeError)
_MISFITS = (struct_error, AttributeError, TypeError, UnicodeEncodeError)
# What exec made has no static type; what it gives is fixed by its key.
_readers: dict[tuple[type[Message], int], Callable[..., Any]] = {}
_writers: dict[tuple[type[Message], int], Callable[..., Any]] = {}
_parts_writers: dict[tuple[type[Message], int], Callable[..., Any]] = {}


def decode(cls: type[M], version: int, data: bytes | bytearray | memoryview, at: int = 0) -> M:
    """Read a message that starts at a position."""
    reader = _readers.get((cls, version)) or _new_reader(cls, version)
    message: M
    try:
        message = reader(data, at)[0]
    except _PROBLEMS as problem:
        raise DecodeError(f"{cls.__name__} v{version}: {problem}") from None
    return message


def decode_prefix(
    cls: type[M], version: int, data: bytes | bytearray | memoryview, at: int = 0
) -> tuple[M, int]:
    """Read a message; return it and the position after it."""
    reader = _readers.get((cls, version)) or _new_reader(cls, version)
    found: tuple[M, int]
    try:
        found = reader(data, at)
    except _PROBLEMS as problem:
        raise DecodeError(f"{cls.__name__} v{version}: {problem}") from None
    return found


def encode(message: Message, version: int) -> bytes:
    """Return a message's bytes in a version."""
    cls = type(message)
    writer = _writers.get((cls, version)) or _new_writer(cls, version)
    try:
        data: bytes = writer(message)
    except _MISFITS as problem:
        raise EncodeError(f"{cls.__name__} v{version}: {problem}") from None
    return data


def encode_parts(message: Message, version: int) -> list[bytes]:
    """Return the pieces of a message's bytes; large records among them are not copied."""
    cls = type(message)
    writer = _parts_writers.get((cls, version)) or _new_parts_writer(cls, version)
    try:
        parts: list[bytes] = writer(message)
    except _MISFITS as problem:
        raise EncodeError(f"{cls.__name__} v{version}: {problem}") from None
    return parts


def _new_reader(cls: type[Message], version: int) -> Callable[..., Any]:
    if not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
        raise DecodeError(f"{cls.__name__} has no version {version}")
    reader = _readers[cls, version] = make_reader(cls, version)
    return reader


def pure_reader(cls: type[Message], version: int) -> Callable[..., Any]:
    """A reader in Python, which any buffer can be given to."""
    read = compile_reader(cls, version)

    def reader(data: bytes | bytearray | memoryview, at: int) -> Any:
        if type(data) is bytes:
            return read(data, at)
        # The message keeps nothing of a buffer that its owner will use again.
        message, stop = read(bytes(data[at:]), 0)
        return message, stop + at

    return reader


def native_reader(cls: type[Message], version: int) -> Callable[..., Any]:
    """A reader in C."""
    assert MessageReader is not None
    return MessageReader(cls, version).read


make_reader = pure_reader if MessageReader is None else native_reader


def _new_writer(cls: type[Message], version: int) -> Callable[..., Any]:
    _check_written(cls, version)
    writer = _writers[cls, version] = compile_writer(cls, version)
    return writer


def _new_parts_writer(cls: type[Message], version: int) -> Callable[..., Any]:
    _check_written(cls, version)
    writer = _parts_writers[cls, version] = compile_parts_writer(cls, version)
    return writer


def _check_written(cls: type[Message], version: int) -> None:
    if not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
        raise EncodeError(f"{cls.__name__} has no version {version}")
