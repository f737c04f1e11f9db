"""The hashes of `ottla.records.hashing`: which partition a key chooses, and what a row's digest is
made of.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from ottla.records.native.parsing cimport Part


cdef inline uint32_t murmur2(Part key) noexcept nogil:
    cdef uint32_t m = 0x5BD1E995
    cdef uint32_t h = <uint32_t>0x9747B28C ^ <uint32_t>key.size
    cdef uint32_t k
    cdef const uint8_t *at = key.start
    cdef int64_t left = key.size
    while left >= 4:
        k = (
            at[0] | <uint32_t>at[1] << 8 | <uint32_t>at[2] << 16 | <uint32_t>at[3] << 24
        ) * m
        h = (h * m) ^ ((k ^ (k >> 24)) * m)
        at += 4
        left -= 4
    if left:
        k = at[0]
        if left > 1:
            k |= <uint32_t>at[1] << 8
        if left > 2:
            k |= <uint32_t>at[2] << 16
        h = (h ^ k) * m
    h = (h ^ (h >> 13)) * m
    return h ^ (h >> 15)


cdef inline uint64_t long_at(const uint8_t *at, int64_t size) noexcept nogil:
    """Up to eight bytes, the lowest first."""
    cdef uint64_t value = 0
    cdef int64_t index
    for index in range(size):
        value |= <uint64_t>at[index] << (8 * index)
    return value


cdef inline uint64_t murmur64(Part part, uint64_t seed) noexcept nogil:
    cdef uint64_t m = <uint64_t>0xC6A4A7935BD1E995
    cdef uint64_t h = seed ^ (<uint64_t>part.size * m)
    cdef uint64_t k
    cdef const uint8_t *at = part.start
    cdef int64_t left = part.size
    while left >= 8:
        k = long_at(at, 8) * m
        h = (h ^ ((k ^ (k >> 47)) * m)) * m
        at += 8
        left -= 8
    if left:
        h = (h ^ long_at(at, left)) * m
    h = (h ^ (h >> 47)) * m
    return h ^ (h >> 47)
