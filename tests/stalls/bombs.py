"""Batches of some kilobytes that become a hundred megabytes, in each codec."""

from collections.abc import Iterator
from typing import NamedTuple

import cramjam

from ottla.records import Codec
from ottla.records.batches import sealed
from ottla.records.compression import compress
from ottla.records.record import varint

LARGEST_BATCH = 1_000_000
"""A little less than `max.message.bytes`."""


class Bomb(NamedTuple):
    """One batch, and what it is."""

    name: str
    batch: bytes


def bombs(body_bytes: int, now: int, *, keyed: bool, max_timestamp: int) -> Iterator[Bomb]:
    """One for each codec, with a body of at most so many bytes."""
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        yield Bomb(
            codec.name, bomb(codec, body_bytes, now, keyed=keyed, max_timestamp=max_timestamp)
        )


def bomb(codec: Codec, body_bytes: int, now: int, *, keyed: bool, max_timestamp: int) -> bytes:
    """A batch that is right in all but its size, and maybe its largest timestamp."""
    key = varint(1) + b"k" if keyed else varint(-1)
    inside = b"\0\0\0" + key + varint(-1) + b"\0"
    record = varint(len(inside)) + inside
    if codec == Codec.SNAPPY:  # packs 20 to one
        body_bytes = min(body_bytes, LARGEST_BATCH * 18)
    count = body_bytes // len(record)
    return sealed(
        _compressed(codec, record * count),
        count,
        codec=codec,
        last_offset_delta=count - 1,
        base_timestamp=now,
        max_timestamp=max_timestamp,
    )


def _compressed(codec: Codec, body: bytes) -> bytes:
    if codec == Codec.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(body))
    return compress(codec, body)
