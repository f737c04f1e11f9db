"""Numbers and parts of records as bytes: how long they are, and their writing.

Nothing is checked here: who writes has added up the sizes, and taken as much memory, before.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from ottla.records.native.parsing cimport Part


cdef inline int64_t zigzag_size(int64_t value) noexcept nogil:
    """Bytes of a number as varint."""
    cdef uint64_t rest = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef int64_t size = 1
    while rest >= 0x80:
        rest >>= 7
        size += 1
    return size


cdef inline uint8_t *write_varint(uint8_t *at, int64_t value) noexcept nogil:
    cdef uint64_t rest = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while rest >= 0x80:
        at[0] = <uint8_t>(rest | 0x80)
        at += 1
        rest >>= 7
    at[0] = <uint8_t>rest
    return at + 1


cdef inline int64_t part_size(Part part) noexcept nogil:
    """Bytes of a key or value with its length before it."""
    return 1 if part.size < 0 else zigzag_size(part.size) + part.size


cdef inline uint8_t *write_part(uint8_t *at, Part part) noexcept nogil:
    at = write_varint(at, part.size)
    if part.size > 0:
        memcpy(at, part.start, <size_t>part.size)
        at += part.size
    return at
