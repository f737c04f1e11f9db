"""The two hashes of rows (pure): Kafka's own, which chooses partitions, and one to compare rows by.

The kernels compute both natively; these are the same in Python.
"""

from collections.abc import Iterable
from struct import Struct

_WORD = Struct("<I")
_LONG = Struct("<Q")
_MASK = 0xFFFFFFFF
_MASK64 = 0xFFFFFFFFFFFFFFFF
_M = 0x5BD1E995
_M64 = 0xC6A4A7935BD1E995
_SEED = 0x9747B28C

NULL = 0x9E3779B97F4A7C15
"""Stands for a null in the hash of a row: another than that of any empty key or value."""


def murmur2(data: bytes) -> int:
    """MurmurHash2 with Kafka's seed, as an unsigned number of 32 bits."""
    size = len(data)
    h = (_SEED ^ size) & _MASK
    whole = size & ~3
    for (k,) in _WORD.iter_unpack(data[:whole]):
        k = k * _M & _MASK
        h = h * _M & _MASK ^ ((k ^ k >> 24) * _M & _MASK)
    if size > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, partition_count: int) -> int:
    """The partition that the Java client's default partitioner chooses for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def murmur64(data: bytes, seed: int) -> int:
    """MurmurHash64A, as an unsigned number of 64 bits."""
    size = len(data)
    h = seed ^ (size * _M64 & _MASK64)
    whole = size & ~7
    for (k,) in _LONG.iter_unpack(data[:whole]):
        k = k * _M64 & _MASK64
        h = (h ^ ((k ^ k >> 47) * _M64 & _MASK64)) * _M64 & _MASK64
    if size > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M64 & _MASK64
    h = (h ^ h >> 47) * _M64 & _MASK64
    return h ^ h >> 47


def row_hash(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[bytes, bytes | None]]
) -> int:
    """A hash of 64 bits in which each part of a row counts, and where it stands."""
    h = _chained(_chained(0, key), value)
    for header_key, header_value in headers:
        h = _chained(_chained(h, header_key), header_value)
    return h


def _chained(h: int, part: bytes | None) -> int:
    return murmur64(b"", h ^ NULL) if part is None else murmur64(part, h)
