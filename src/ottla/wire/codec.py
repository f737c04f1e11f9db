"""Messages to bytes and back, for each message class of `ottla.wire.messages` and each version.

The functions that do the work are compiled at the first use of a message and version.

Rules kept here:
1. Bytes that are not such a message raise DecodeError, and nothing else.
2. What follows a message in the buffer is left alone, as Kafka does. A buffer other than bytes is
   copied from the position to its end, so it should end with the message.
3. A message that the version cannot carry raises EncodeError, and nothing else.
"""

from collections.abc import Callable
from struct import error as struct_error
from typing import Any, TypeVar

from ottla.wire.fields import DecodeError
from ottla.wire.message import Message
from ottla.wire.reader import compile_reader
from ottla.wire.writer import EncodeError, compile_writer

__all__ = ["DecodeError", "EncodeError", "decode", "decode_prefix", "encode"]

M = TypeVar("M", bound=Message)

# What exec made has no static type; what it gives is fixed by its key.
_readers: dict[tuple[type[Message], int], Callable[..., Any]] = {}
_writers: dict[tuple[type[Message], int], Callable[..., Any]] = {}


def decode(cls: type[M], version: int, data: bytes | bytearray | memoryview, at: int = 0) -> M:
    """Read a message that starts at a position."""
    reader = _readers.get((cls, version)) or _new_reader(cls, version)
    message: M
    try:
        # The message keeps nothing of a buffer that its owner will use again.
        message = (reader(data, at) if type(data) is bytes else reader(bytes(data[at:]), 0))[0]
    except (IndexError, struct_error, UnicodeDecodeError) as problem:
        raise DecodeError(f"{cls.__name__} v{version}: {problem}") from None
    return message


def decode_prefix(
    cls: type[M], version: int, data: bytes | bytearray | memoryview, at: int = 0
) -> tuple[M, int]:
    """Read a message; return it and the position after it."""
    reader = _readers.get((cls, version)) or _new_reader(cls, version)
    message: M
    try:
        if type(data) is bytes:
            message, stop = reader(data, at)
        else:
            message, stop = reader(bytes(data[at:]), 0)
            stop += at
    except (IndexError, struct_error, UnicodeDecodeError) as problem:
        raise DecodeError(f"{cls.__name__} v{version}: {problem}") from None
    return message, stop


def encode(message: Message, version: int) -> bytes:
    """Return a message's bytes in a version."""
    cls = type(message)
    writer = _writers.get((cls, version)) or _new_writer(cls, version)
    try:
        data: bytes = writer(message)
    except (struct_error, AttributeError, TypeError, UnicodeEncodeError) as problem:
        raise EncodeError(f"{cls.__name__} v{version}: {problem}") from None
    return data


def _new_reader(cls: type[Message], version: int) -> Callable[..., Any]:
    if not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
        raise DecodeError(f"{cls.__name__} has no version {version}")
    reader = _readers[cls, version] = compile_reader(cls, version)
    return reader


def _new_writer(cls: type[Message], version: int) -> Callable[..., Any]:
    if not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
        raise EncodeError(f"{cls.__name__} has no version {version}")
    writer = _writers[cls, version] = compile_writer(cls, version)
    return writer
