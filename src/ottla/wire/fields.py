"""The few field readers and writers that codecs, compiled or by hand, share.

Each reader takes a buffer and a position and returns the value and the position after it.
Every one raises DecodeError rather than read past the end; fixed-size fields are read with
`Struct.unpack_from`, whose own bounds check (`struct.error`) the callers turn into DecodeError.
"""

from functools import lru_cache
from struct import Struct
from uuid import UUID

INT16 = Struct(">h")
INT32 = Struct(">i")
_UUID = Struct("16s")
MOST_TAGS = 1000
"""Tagged fields of one structure. Kafka's messages have a few; those unknown are passed over."""


class DecodeError(ValueError):
    """The bytes are not a message of this kind and version."""


class EncodeError(ValueError):
    """The message cannot be said in this version."""


def read_uvarint(view: memoryview, at: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits."""
    byte = view[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    shift = 7
    while True:
        at += 1
        byte = view[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise DecodeError("a varint is longer than five bytes")
    if value > 0xFFFFFFFF:
        raise DecodeError("a varint is larger than 32 bits")
    return value, at + 1


def uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_string(view: memoryview, at: int, flexible: bool) -> tuple[str | None, int]:
    """A nullable string."""
    if flexible:
        size, at = read_uvarint(view, at)
        size -= 1
    else:
        (size,) = INT16.unpack_from(view, at)
        at += 2
        if size < -1:
            raise DecodeError(f"a string of {size} bytes")
    if size < 0:
        return None, at
    end = at + size
    if end > len(view):
        raise DecodeError(f"a string of {size} bytes with {len(view) - at} left")
    return str(view[at:end], "utf-8"), end


def read_topic_id(view: memoryview, at: int) -> tuple[bytes, int]:
    """The 16 bytes of a topic's id, which serve as a key as they are."""
    return _UUID.unpack_from(view, at)[0], at + 16


@lru_cache(maxsize=4096)
def uuid_of(data: bytes) -> UUID:
    """Topic ids come again and again, and making a UUID takes ten times as long as a lookup."""
    return UUID(bytes=data)


def read_count(view: memoryview, at: int, flexible: bool, smallest: int) -> tuple[int, int]:
    """The number of elements of an array; null counts as none.

    `smallest` is the least number of bytes an element takes, so that a count which cannot be
    true is refused before anything is made for it.
    """
    if flexible:
        count = view[at]
        if count < 0x80:  # as most are
            at += 1
        else:
            count, at = read_uvarint(view, at)
        count -= 1
    else:
        (count,) = INT32.unpack_from(view, at)
        at += 4
    if count <= 0:
        if count < -1:
            raise DecodeError(f"an array of {count} elements")
        return 0, at
    if count * smallest > len(view) - at:
        raise DecodeError(f"an array of {count} elements in {len(view) - at} bytes")
    return count, at


def skip_tags(view: memoryview, at: int) -> int:
    """Pass over a section of tagged fields that nobody here needs."""
    if not view[at]:  # as most are
        return at + 1
    count, at = read_uvarint(view, at)
    if count > MOST_TAGS:
        raise DecodeError(f"{count} tagged fields")
    for _ in range(count):
        _, at = read_uvarint(view, at)
        size, at = read_uvarint(view, at)
        at += size
        if at > len(view):
            raise DecodeError("a tagged field passes the end of its message")
    return at


def string(value: str, flexible: bool) -> bytes:
    """The bytes of a string that is not null."""
    data = value.encode()
    return (uvarint(len(data) + 1) if flexible else INT16.pack(len(data))) + data


def nullable_string(value: str | None, flexible: bool) -> bytes:
    """The bytes of a string that may be null."""
    if value is None:
        return b"\x00" if flexible else b"\xff\xff"
    return string(value, flexible)


def count(value: int, flexible: bool) -> bytes:
    """The bytes of an array's length."""
    return uvarint(value + 1) if flexible else INT32.pack(value)
