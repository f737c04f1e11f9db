# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""What is asked of a batch's records without making them: by the rules of `pure/examining.py`, and
of its compressed body without decompressing it: by those of `pure/frames.py`.

Long bodies are read without the GIL, so that a thread may do it beside the event loop.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from ottla.records.native.parsing cimport (
    Cursor,
    Parsed,
    begin,
    finish,
    place,
    read_record,
)

from ottla.records.layout import MOST_NAMED, NO_TIMESTAMP, Examined

cdef enum:
    LONG_BODY = 65536  # bytes from which on releasing the GIL costs nothing in comparison
    MOST = 100
    XERIAL_SIZE = 16
    ZSTD_BLOCK = 131072  # the largest of its blocks
    GZIP_BEST = 1032  # bytes out of one
    SNAPPY_BEST = 64
    TRIES = 8  # records that are not plain, until none of a batch is taken for it

if MOST_NAMED != MOST:
    raise ImportError("the two kernels name different numbers of records")

cdef int64_t SAFE = <int64_t>1 << 62  # a short delta does not take a timestamp out of 64 bits

cdef struct Findings:
    int64_t largest
    int64_t earliest
    int64_t latest
    int64_t keyless
    int64_t untimely
    int32_t without_key[MOST]
    int32_t out_of_range[MOST]
    int64_t timestamps[MOST]


cdef void examine(Cursor *cursor, int32_t count, int64_t base, Findings *found) noexcept nogil:
    cdef Parsed record
    cdef int64_t timestamp
    cdef int32_t index
    for index in range(count):
        if not read_record(cursor, &record):
            return
        timestamp = base
        if not place(cursor, &record, 0, &timestamp, False):
            return
        if timestamp > found.largest:
            found.largest = timestamp
        if record.key.size < 0:
            if found.keyless < MOST:
                found.without_key[found.keyless] = index
            found.keyless += 1
        if timestamp < found.earliest or timestamp > found.latest:
            if timestamp != -1:
                if found.untimely < MOST:
                    found.out_of_range[found.untimely] = index
                    found.timestamps[found.untimely] = timestamp
                found.untimely += 1


def examine_records(
    data,
    int32_t count,
    int64_t base_timestamp,
    int64_t earliest=INT64_MIN,
    int64_t latest=INT64_MAX,
):
    """Check the framing of a body's records, and say what a broker asks of them."""
    cdef Py_buffer body
    cdef Cursor cursor
    cdef Findings found
    cdef int64_t index
    found.largest = NO_TIMESTAMP
    found.earliest = earliest
    found.latest = latest
    found.keyless = found.untimely = 0
    PyObject_GetBuffer(data, &body, PyBUF_SIMPLE)
    try:
        begin(&cursor, <const uint8_t *>body.buf, body.len, count)
        if body.len < LONG_BODY:
            examine(&cursor, count, base_timestamp, &found)
        else:
            with nogil:
                examine(&cursor, count, base_timestamp, &found)
        finish(&cursor)
    finally:
        PyBuffer_Release(&body)
    return Examined(
        found.largest,
        [found.without_key[index] for index in range(min(found.keyless, MOST))],
        [
            (found.out_of_range[index], found.timestamps[index])
            for index in range(min(found.untimely, MOST))
        ],
    )


cdef int64_t seek(
    Cursor *cursor,
    int32_t count,
    int64_t base,
    int64_t timestamp,
    int64_t least_delta,
    int64_t *found,
) noexcept nogil:
    """The offset delta of the first such record, and its timestamp; -1 for none."""
    cdef Parsed record
    cdef int32_t index
    for index in range(count):
        if not read_record(cursor, &record):
            return -1
        found[0] = base
        if not place(cursor, &record, 0, found, False):
            return -1
        if found[0] >= timestamp and record.offset_delta >= least_delta:
            return record.offset_delta
    return -1


def seek_timestamp(
    data, int32_t count, int64_t base_timestamp, int64_t timestamp, int64_t least_delta
):
    """Timestamp and offset delta of the first record at or after a timestamp and delta, or None."""
    cdef Py_buffer body
    cdef Cursor cursor
    cdef int64_t found = 0, delta
    PyObject_GetBuffer(data, &body, PyBUF_SIMPLE)
    try:
        begin(&cursor, <const uint8_t *>body.buf, body.len, count)
        if body.len < LONG_BODY:
            delta = seek(&cursor, count, base_timestamp, timestamp, least_delta, &found)
        else:
            with nogil:
                delta = seek(&cursor, count, base_timestamp, timestamp, least_delta, &found)
        if delta >= 0:
            return found, delta
        finish(&cursor)
    finally:
        PyBuffer_Release(&body)
    return None


def validate_records(data, Py_ssize_t at, int32_t count, int64_t base_timestamp):
    """Check the framing of the records behind a position; their largest timestamp."""
    cdef Py_buffer body
    cdef Cursor cursor
    cdef int64_t largest = -1
    PyObject_GetBuffer(data, &body, PyBUF_SIMPLE)
    try:
        if at < 0 or at > body.len:
            raise IndexError(f"position {at} in {body.len} bytes")
        begin(&cursor, <const uint8_t *>body.buf + at, body.len - at, count)
        if body.len < LONG_BODY:
            largest = validate(&cursor, count, base_timestamp)
        else:
            with nogil:
                largest = validate(&cursor, count, base_timestamp)
        finish(&cursor)
    finally:
        PyBuffer_Release(&body)
    return largest


cdef inline const uint8_t *pass_plain(
    const uint8_t *at, const uint8_t *end, int64_t *timestamp_delta
) noexcept nogil:
    """Behind a record as most are: small, its numbers short, no headers; NULL for any other.

    It refuses nothing: `read_record` looks at what is not plain.
    """
    cdef const uint8_t *stop
    cdef int64_t size
    if end - at < 10:
        return NULL  # the fields before the key's bytes are read without a look at the end
    size = at[0]
    at += 1
    if size >= 0x80:
        if at[0] >= 0x80:
            return NULL
        size = size & 0x7F | <int64_t>at[0] << 7
        at += 1
    if size & 1 or size >> 1 > end - at:
        return NULL
    size >>= 1
    stop = at + size
    at += 1  # the attributes
    if at[0] < 0x80:
        timestamp_delta[0] = <int64_t>(at[0] >> 1) ^ -<int64_t>(at[0] & 1)
        at += 1
    elif at[1] < 0x80:
        size = at[0] & 0x7F | <int64_t>at[1] << 7
        timestamp_delta[0] = size >> 1 ^ -(size & 1)
        at += 2
    else:
        return NULL
    if at[0] & 1:
        return NULL  # a negative offset
    if at[0] < 0x80:
        at += 1
    elif at[1] < 0x80:
        at += 2
    elif at[2] < 0x80:
        at += 3
    else:
        return NULL
    if at[0] != 1:  # which is no key
        if at[0] & 0x81 or at[0] >> 1 > stop - at:
            return NULL
        at += at[0] >> 1
    at += 1
    if stop - at < 2:
        return NULL
    size = at[0]
    at += 1
    if size != 1:
        if size & 1:
            return NULL
        if size >= 0x80:
            if at[0] >= 0x80:
                return NULL
            size = size & 0x7F | <int64_t>at[0] << 7
            at += 1
        if size >> 1 > stop - at:
            return NULL
        at += size >> 1
    if at != stop - 1 or at[0]:
        return NULL
    return stop


cdef int64_t validate(Cursor *cursor, int32_t count, int64_t base) noexcept nogil:
    cdef Parsed record
    cdef const uint8_t *behind
    cdef int64_t timestamp, delta = 0, largest = -1
    cdef int32_t index
    cdef int tries = TRIES if -SAFE < base < SAFE else 0
    for index in range(count):
        behind = pass_plain(cursor.at, cursor.end, &delta) if tries else NULL
        if behind:
            cursor.at = behind
            timestamp = base + delta
        else:
            if tries:
                tries -= 1
            if not read_record(cursor, &record):
                return largest
            timestamp = base
            if not place(cursor, &record, 0, &timestamp, False):
                return largest
        if timestamp > largest:
            largest = timestamp
    return largest


cdef inline uint32_t little32(const uint8_t *at) noexcept nogil:
    return <uint32_t>at[3] << 24 | <uint32_t>at[2] << 16 | <uint32_t>at[1] << 8 | at[0]


def largest_body(int codec, data, Py_ssize_t at=0):
    """How large a compressed body can become, by its frame; -1 where it is no whole frame."""
    cdef Py_buffer body
    cdef const uint8_t *start
    cdef Py_ssize_t size
    cdef int64_t found = -1
    PyObject_GetBuffer(data, &body, PyBUF_SIMPLE)
    try:
        if 0 <= at <= body.len:
            start = <const uint8_t *>body.buf + at
            size = body.len - at
            if codec == 1:
                found = largest_of_gzip(start, size)
            elif codec == 2:
                found = largest_of_snappy(start, size)
            elif codec == 3:
                found = largest_of_lz4(start, size)
            elif codec == 4:
                found = largest_of_zstd(start, size)
    finally:
        PyBuffer_Release(&body)
    return found


cdef int64_t largest_of_gzip(const uint8_t *at, Py_ssize_t size) noexcept nogil:
    if size < 18 or at[0] != 0x1F or at[1] != 0x8B or at[2] != 8:
        return -1
    return <int64_t>size * GZIP_BEST


cdef int64_t stated_by_snappy(const uint8_t *at, Py_ssize_t size) noexcept nogil:
    """The size that a raw block states; -1 where it states none that could be true."""
    cdef uint64_t value = 0
    cdef int index
    for index in range(5):
        if index >= size:
            return -1
        value |= <uint64_t>(at[index] & 0x7F) << (7 * index)
        if at[index] < 0x80:
            if value > <uint64_t>size * SNAPPY_BEST:
                return -1
            return <int64_t>value
    return -1


cdef int64_t largest_of_snappy(const uint8_t *at, Py_ssize_t size) noexcept nogil:
    cdef int64_t total = 0, stated
    cdef int64_t length
    if size < XERIAL_SIZE or memcmp(at, b"\x82SNAPPY\x00", 8):
        return stated_by_snappy(at, size)
    at += XERIAL_SIZE
    size -= XERIAL_SIZE
    while size:
        if size < 4:
            return -1
        length = <int64_t>at[0] << 24 | <int64_t>at[1] << 16 | <int64_t>at[2] << 8 | at[3]
        if length <= 0 or length > size - 4:
            return -1
        stated = stated_by_snappy(at + 4, length)
        if stated < 0:
            return -1
        total += stated
        at += 4 + length
        size -= 4 + length
    return total


cdef int64_t largest_of_lz4(const uint8_t *at, Py_ssize_t size) noexcept nogil:
    cdef int64_t total = 0, block
    cdef Py_ssize_t head = 7
    cdef uint32_t length
    cdef uint8_t flags
    if size < 7 or little32(at) != 0x184D2204:
        return -1
    flags = at[4]
    if flags >> 6 != 1:
        return -1
    if not 4 <= (at[5] >> 4 & 7):
        return -1
    block = <int64_t>1 << (8 + 2 * (at[5] >> 4 & 7))
    if flags & 0x08:
        head += 8
    if flags & 0x01:
        head += 4
    while True:
        if size - head < 4:
            return -1
        length = little32(at + head)
        head += 4
        if length == 0:
            break
        total += block
        length &= 0x7FFFFFFF
        if length > block or length > size - head:
            return -1
        head += length
        if flags & 0x10:
            head += 4
        if head > size:
            return -1
    if flags & 0x04:
        head += 4
    return total if head <= size else -1


cdef int64_t largest_of_zstd(const uint8_t *at, Py_ssize_t size) noexcept nogil:
    """Frames one after the other, skippable ones among them."""
    cdef int64_t total = 0
    cdef Py_ssize_t head
    cdef uint32_t magic, block, length
    cdef uint8_t flags
    if size == 0:
        return -1
    while size:
        if size < 5:
            return -1
        magic = little32(at)
        if magic >> 4 == 0x184D2A5:
            if size < 8 or little32(at + 4) > size - 8:
                return -1
            head = 8 + <Py_ssize_t>little32(at + 4)
            at += head
            size -= head
            continue
        if magic != 0xFD2FB528U:
            return -1
        flags = at[4]
        head = 5
        if not flags & 0x20:
            head += 1  # the window; a single segment has none
        head += (1 << (flags & 3)) >> 1 if flags & 3 else 0
        if flags >> 6:
            head += 1 << (flags >> 6)
        elif flags & 0x20:
            head += 1
        while True:
            if size - head < 3:
                return -1
            block = <uint32_t>at[head + 2] << 16 | <uint32_t>at[head + 1] << 8 | at[head]
            head += 3
            length = block >> 3
            if block >> 1 & 3 == 3 or length > ZSTD_BLOCK:
                return -1
            if block >> 1 & 3 == 2:
                total += ZSTD_BLOCK
            else:
                total += length
                if block >> 1 & 3 == 1:
                    length = 1
            if length > size - head:
                return -1
            head += length
            if block & 1:
                break
        if flags & 4:
            head += 4
        if head > size:
            return -1
        at += head
        size -= head
    return total
