"""Which partition a keyed record goes to (pure): Kafka's own rule, so that all clients agree."""

from struct import Struct

_WORD = Struct("<I")
_MASK = 0xFFFFFFFF
_M = 0x5BD1E995
_SEED = 0x9747B28C


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition that the Java client's default partitioner chooses."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


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
