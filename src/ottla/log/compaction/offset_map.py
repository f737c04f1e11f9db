"""Which offset is the latest of each key: what one pass of compaction knows.

Rules kept here:
1. Memory is bounded: the map takes a fixed number of keys and says when it is full. The rest is
   left to the next pass, and stays as it is until then.
2. A short key is stored as it is, a longer one as a cryptographic digest, which is longer than any
   short key: no two keys collide.
"""

from hashlib import blake2b

LONGEST_OWN_KEY = 40
DIGEST_SIZE = LONGEST_OWN_KEY + 1

ENTRY_BYTES = 208
"""What Python needs for one key while the dictionary grows: 80 bytes for the key, 32 for the
offset, up to 90 for its old and new places in the dictionary."""


class OffsetMap:
    """The latest offsets of the keys between the first dirty offset and `latest`."""

    __slots__ = ("_capacity", "_offsets", "latest")

    def __init__(self, memory: int) -> None:
        self._capacity = max(1, memory // ENTRY_BYTES)
        self._offsets: dict[bytes, int] = {}
        self.latest = -1
        """The map knows every key up to this offset."""

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def fullness(self) -> float:
        """How much of the memory is used, 1.0 for all."""
        return len(self._offsets) / self._capacity

    def put(self, key: bytes, offset: int) -> bool:
        """A later record has this key; False if the map is full."""
        offsets = self._offsets
        if len(offsets) >= self._capacity:
            return False
        if len(key) > LONGEST_OWN_KEY:
            key = blake2b(key, digest_size=DIGEST_SIZE).digest()
        offsets[key] = offset
        return True

    def get(self, key: bytes) -> int:
        """The latest offset of a key, -1 for one that is not in the map."""
        if len(key) > LONGEST_OWN_KEY:
            key = blake2b(key, digest_size=DIGEST_SIZE).digest()
        return self._offsets.get(key, -1)
