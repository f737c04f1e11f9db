"""The one parser of records that all of the native kernel reads with.

The rules, and the words of refusals, are those of `pure/decoding.py`. Beyond them: every byte is
read through a Cursor, which compares with its end first, and a size is compared with what is left
before a pointer moves by it.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t

cdef enum:
    SMALLEST_RECORD = 7  # bytes, its size included

cdef enum Problem:
    NONE
    PASSES_THE_END
    VARINT_WITHOUT_END
    VARINT_TOO_LONG
    RECORD_SIZE
    NEGATIVE_SIZE
    PART_SIZE
    HEADER_COUNT
    HEADER_WITHOUT_KEY
    RECORD_END
    DELTAS

cdef struct Cursor:
    const uint8_t *at
    const uint8_t *end
    Problem problem
    int64_t first  # the numbers that belong to the problem
    int64_t second

cdef struct Part:
    const uint8_t *start
    int64_t size  # -1 for null

cdef struct Parsed:
    int64_t timestamp_delta
    int64_t offset_delta
    Part key
    Part value
    int64_t header_count
    const uint8_t *headers
    const uint8_t *stop


cdef inline void fail(Cursor *cursor, Problem problem, int64_t first, int64_t second) noexcept nogil:
    cursor.problem = problem
    cursor.first = first
    cursor.second = second


cdef inline int64_t read_varint(Cursor *cursor, int last_shift) noexcept nogil:
    """A zigzag varint: of 32 bits with a last shift of 28, of 64 with 63."""
    cdef uint64_t value
    cdef uint8_t byte
    cdef int shift = 7
    if cursor.at >= cursor.end:
        fail(cursor, PASSES_THE_END, 0, 0)
        return 0
    byte = cursor.at[0]
    cursor.at += 1
    if byte < 0x80:
        return <int64_t>(byte >> 1) ^ -<int64_t>(byte & 1)
    value = byte & 0x7F
    while True:
        if cursor.at >= cursor.end:
            fail(cursor, PASSES_THE_END, 0, 0)
            return 0
        byte = cursor.at[0]
        cursor.at += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > last_shift:
            fail(cursor, VARINT_WITHOUT_END, 0, 0)
            return 0
    if (shift == 63 and byte > 1) or (last_shift == 28 and value >> 32):
        fail(cursor, VARINT_TOO_LONG, 0, 0)
        return 0
    return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)


cdef inline bint read_part(Cursor *cursor, const uint8_t *stop, Part *part) noexcept nogil:
    """A key, a value, or one of a header: its size and as many bytes, none behind `stop`."""
    cdef int64_t size = read_varint(cursor, 28)
    if cursor.problem:
        return False
    if size < -1:
        fail(cursor, NEGATIVE_SIZE, size, 0)
        return False
    if size > stop - cursor.at and size >= 0:
        fail(cursor, PART_SIZE, size, stop - cursor.at)
        return False
    part.start = cursor.at
    part.size = size
    if size > 0:
        cursor.at += size
    return True


cdef inline bint read_record(Cursor *cursor, Parsed *record) noexcept nogil:
    """One whole record. Its headers are checked, too, and left where they are."""
    cdef int64_t size = read_varint(cursor, 28)
    cdef int64_t left
    cdef const uint8_t *stop
    cdef Part header_key
    cdef Part header_value
    cdef int64_t index
    if cursor.problem:
        return False
    left = cursor.end - cursor.at
    if size < SMALLEST_RECORD - 1 or size > left:
        fail(cursor, RECORD_SIZE, size, left)
        return False
    stop = cursor.at + size
    cursor.at += 1  # the attributes, which mean nothing yet
    record.timestamp_delta = read_varint(cursor, 63)
    if cursor.problem:
        return False
    record.offset_delta = read_varint(cursor, 28)
    if cursor.problem:
        return False
    if not read_part(cursor, stop, &record.key) or not read_part(cursor, stop, &record.value):
        return False
    record.header_count = read_varint(cursor, 28)
    if cursor.problem:
        return False
    record.headers = cursor.at
    record.stop = stop
    if record.header_count:
        # A header takes two bytes at least: the lengths of its key and value.
        if record.header_count < 0 or record.header_count * 2 > stop - cursor.at:
            fail(cursor, HEADER_COUNT, record.header_count, stop - cursor.at)
            return False
        for index in range(record.header_count):
            if not read_part(cursor, stop, &header_key):
                return False
            if not read_part(cursor, stop, &header_value):
                return False
            if header_key.size < 0:
                fail(cursor, HEADER_WITHOUT_KEY, 0, 0)
                return False
    if cursor.at != stop:
        fail(cursor, RECORD_END, size, cursor.at - stop)
        return False
    return True


cdef inline bint place(
    Cursor *cursor, Parsed *record, int64_t base_offset, int64_t *timestamp, bint append_time
) noexcept nogil:
    """Check that a record's offset has 64 bits, and its timestamp, which is set."""
    cdef int64_t base = timestamp[0]
    cdef int64_t delta = record.timestamp_delta
    cdef bint fits = 0 <= record.offset_delta and base_offset <= INT64_MAX - record.offset_delta
    if fits and not append_time:
        fits = base <= INT64_MAX - delta if delta > 0 else base >= INT64_MIN - delta
        if fits:
            timestamp[0] = base + delta
    if not fits:
        fail(cursor, DELTAS, record.offset_delta, delta)
    return fits


cdef inline int refuse(Cursor *cursor) except -1:
    """Raise for the problem that was found."""
    from ottla.records.record import corrupt

    if cursor.problem == PASSES_THE_END:
        corrupt("a record passes the end of its batch")
    if cursor.problem == VARINT_WITHOUT_END:
        corrupt("a varint without an end")
    if cursor.problem == VARINT_TOO_LONG:
        corrupt("a varint of too many bits")
    if cursor.problem == RECORD_SIZE:
        corrupt(f"a record of {cursor.first} bytes with {cursor.second} left")
    if cursor.problem == NEGATIVE_SIZE:
        corrupt(f"a key, value or header of {cursor.first} bytes")
    if cursor.problem == PART_SIZE:
        corrupt(f"a key, value or header of {cursor.first} bytes with {cursor.second} left")
    if cursor.problem == HEADER_COUNT:
        corrupt(f"{cursor.first} headers in {cursor.second} bytes")
    if cursor.problem == HEADER_WITHOUT_KEY:
        corrupt("a header without a key")
    if cursor.problem == RECORD_END:
        corrupt(f"a record of {cursor.first} bytes ends {cursor.second} bytes after that")
    corrupt(f"offset delta {cursor.first}, timestamp delta {cursor.second}")


cdef inline int begin(
    Cursor *cursor, const uint8_t *data, Py_ssize_t size, int64_t count
) except -1:
    """Set a cursor to the start of a body that states this many records."""
    cursor.at = data
    cursor.end = data + size
    cursor.problem = NONE
    cursor.first = 0
    cursor.second = 0
    if count < 0 or count * SMALLEST_RECORD > size:
        from ottla.records.record import corrupt

        corrupt(f"{count} records in {size} bytes")
    return 0


cdef inline int finish(Cursor *cursor) except -1:
    """Refuse what went wrong, or what is behind the last record."""
    if cursor.problem:
        refuse(cursor)
    if cursor.at != cursor.end:
        from ottla.records.record import corrupt

        corrupt(f"{cursor.end - cursor.at} bytes after the last record of a batch")
    return 0


cdef inline void headers_of(Parsed *record, Cursor *cursor) noexcept nogil:
    """A cursor over a record's headers. They are read as if for the first time."""
    cursor.at = record.headers
    cursor.end = record.stop
    cursor.problem = NONE


cdef inline bint next_header(Cursor *cursor, Part *key, Part *value) noexcept nogil:
    if not read_part(cursor, cursor.end, key) or not read_part(cursor, cursor.end, value):
        return False
    if key.size < 0:
        fail(cursor, HEADER_WITHOUT_KEY, 0, 0)
        return False
    return True
