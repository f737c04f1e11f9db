"""A record, its limits, and the numbers of varying length that its fields are written as."""

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from ottla.wire.errors import ErrorCode, KafkaError

SMALLEST_RECORD = 7
"""Bytes of a record without key, value and headers, its size included."""

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1


class Record(NamedTuple):
    """One record with its absolute offset, and its timestamp in milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def varint(value: int) -> bytes:
    """Return a signed number in zigzag form, seven bits a byte."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    if rest < 0x80:
        return _ONE_BYTE[rest]
    if rest >> 64:
        raise ValueError(f"{value} takes more than 64 bits")
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_ONE_BYTE = [bytes((value,)) for value in range(0x80)]


def corrupt(what: str) -> NoReturn:
    """Say what is wrong with some bytes."""
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, what)
