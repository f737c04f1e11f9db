# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""The records inside batches to Arrow's columns: native, by the rules of `pure/gathering.py`.

Beyond those rules:
1. Room for a body's rows is made before they are written: a body has fewer rows than bytes, and
   fewer bytes of keys and of values than bytes. Headers make their room one by one.
2. Counters move when a whole body was good. What was written behind them does not count.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from ottla.records.native.parsing cimport (
    Cursor,
    Parsed,
    Part,
    begin,
    finish,
    headers_of,
    next_header,
    place,
    read_record,
    refuse,
)

from ottla.records.layout import Binary, Gathered, Headers
from ottla.records.record import INT32_MAX

cdef enum:
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1
    MICROSECONDS = 1000  # of a millisecond
    LEAST_ROOM = 1024


@cython.final
cdef class Room:
    """Memory that grows, and is handed out as a bytearray without a copy."""

    cdef bytearray block
    cdef uint8_t *start
    cdef Py_ssize_t size
    cdef Py_ssize_t used_before

    def __cinit__(self):
        self.block = bytearray()

    cdef int reserve(self, Py_ssize_t size) except -1:
        """Make sure of this many bytes; what was written stays."""
        cdef Py_ssize_t wanted
        if size <= self.size:
            return 0
        # The next round will probably need as much as the last one.
        wanted = max(size, max(2 * self.size, max(self.used_before, <Py_ssize_t>LEAST_ROOM)))
        PyByteArray_Resize(self.block, wanted)
        self.start = <uint8_t *>PyByteArray_AS_STRING(self.block)
        self.size = wanted
        return 0

    cdef bytearray take(self, Py_ssize_t used):
        """Hand out the first bytes, and begin with nothing again."""
        cdef bytearray block = self.block
        if used > self.size:
            raise AssertionError("more was used than there is room")
        PyByteArray_Resize(block, used)
        self.block = bytearray()
        self.start = NULL
        self.size = 0
        self.used_before = used
        return block


@cython.final
cdef class Column:
    """A growing column of bytes."""

    cdef Room bits
    cdef Room ends
    cdef Room data
    cdef uint8_t *bits_at  # where the three begin, for as long as no room is made
    cdef int32_t *ends_at
    cdef uint8_t *data_at
    cdef Py_ssize_t rows
    cdef Py_ssize_t used
    cdef Py_ssize_t nulls

    def __cinit__(self):
        self.bits = Room()
        self.ends = Room()
        self.data = Room()

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1:
        """Make room for this many more rows and bytes."""
        cdef Py_ssize_t all_rows = self.rows + rows
        self.bits.reserve((all_rows + 7) // 8)
        self.ends.reserve((all_rows + 1) * sizeof(int32_t))
        self.data.reserve(self.used + size)
        self.bits_at = self.bits.start
        self.ends_at = <int32_t *>self.ends.start
        self.data_at = self.data.start
        self.ends_at[0] = 0
        return 0

    cdef inline void append(self, const uint8_t *start, int64_t size) noexcept nogil:
        """Append what there is room for; a negative size is null."""
        cdef Py_ssize_t row = self.rows
        cdef uint8_t bit = <uint8_t>(1 << (row & 7))
        if size < 0:
            self.bits_at[row >> 3] &= <uint8_t>~bit
            self.nulls += 1
        else:
            self.bits_at[row >> 3] |= bit
            if size:
                memcpy(self.data_at + self.used, start, <size_t>size)
            self.used += size
        self.rows = row + 1
        # Past 32 bits this is nonsense, which the check of a body's size then drops.
        self.ends_at[row + 1] = <int32_t>self.used

    cdef object take(self):
        """Hand out the column, and begin with nothing again."""
        self.reserve(0, 0)
        bits = self.bits.take((self.rows + 7) // 8)
        column = Binary(
            bits if self.nulls else None,
            self.ends.take((self.rows + 1) * sizeof(int32_t)),
            self.data.take(self.used),
            self.nulls,
        )
        self.rows = self.used = self.nulls = 0
        return column


cdef struct Mark:  # how far a column was filled
    Py_ssize_t rows
    Py_ssize_t used
    Py_ssize_t nulls


cdef inline Mark mark_of(Column column) noexcept:
    return Mark(column.rows, column.used, column.nulls)


cdef inline void go_back(Column column, Mark mark) noexcept:
    column.rows, column.used, column.nulls = mark.rows, mark.used, mark.nulls


@cython.final
cdef class Gathering:
    """Records as columns, gathered from the bodies of batches until taken."""

    cdef bint with_headers
    cdef int64_t largest
    cdef Column keys
    cdef Column values
    cdef Room offsets
    cdef Room timestamps
    cdef Room types
    cdef Column lists  # of headers: the data of a row would be its headers, so `used` counts them
    cdef Column header_keys
    cdef Column header_values

    def __cinit__(self, bint headers, int64_t largest=INT32_MAX):
        self.with_headers = headers
        self.largest = largest
        self.keys = Column()
        self.values = Column()
        self.offsets = Room()
        self.timestamps = Room()
        self.types = Room()
        self.lists = Column()
        self.header_keys = Column()
        self.header_values = Column()

    @property
    def rows(self):
        """Rows gathered."""
        return self.keys.rows

    @property
    def nbytes(self):
        """Bytes of keys, values and headers gathered."""
        return self.keys.used + self.values.used + self.header_keys.used + self.header_values.used

    def add(
        self,
        data,
        int32_t count,
        int64_t base_offset,
        int64_t base_timestamp,
        append_time,
        int64_t first,
        int64_t end,
    ):
        """Read a body as decode_records does, and keep the records with first <= offset < end."""
        cdef Py_buffer body
        cdef Column column
        cdef list columns = [
            self.keys, self.values, self.lists, self.header_keys, self.header_values
        ]
        cdef Mark[5] marks
        cdef bint appended = append_time is not None
        cdef int64_t base = append_time if appended else base_timestamp
        cdef int index
        for index in range(5):
            marks[index] = mark_of(columns[index])
        PyObject_GetBuffer(data, &body, PyBUF_SIMPLE)
        try:
            self.fill(&body, count, base_offset, base, appended, first, end)
            if self.with_headers:
                self.fill_headers(&body, count, base_offset, first, end)
            for column in columns:
                if column.used > self.largest:
                    raise OverflowError(f"a column of more than {self.largest} bytes")
        except BaseException:
            for index in range(5):
                go_back(columns[index], marks[index])
            raise
        finally:
            PyBuffer_Release(&body)

    cdef int fill(
        self,
        Py_buffer *body,
        int32_t count,
        int64_t base_offset,
        int64_t base,
        bint appended,
        int64_t first,
        int64_t end,
    ) except -1:
        """All columns but the headers."""
        cdef Cursor cursor
        cdef Parsed record
        cdef int64_t offset
        cdef int64_t timestamp
        cdef int32_t index
        cdef Column keys = self.keys
        cdef Column values = self.values
        cdef int64_t *offsets
        cdef int64_t *timestamps
        cdef int32_t *types
        cdef Py_ssize_t row = keys.rows
        begin(&cursor, <const uint8_t *>body.buf, body.len, count)
        self.keys.reserve(count, body.len)
        self.values.reserve(count, body.len)
        self.offsets.reserve((row + count) * sizeof(int64_t))
        self.timestamps.reserve((row + count) * sizeof(int64_t))
        self.types.reserve((row + count) * sizeof(int32_t))
        offsets = <int64_t *>self.offsets.start
        timestamps = <int64_t *>self.timestamps.start
        types = <int32_t *>self.types.start
        with nogil:
            for index in range(count):
                timestamp = base
                if not read_record(&cursor, &record):
                    break
                if not place(&cursor, &record, base_offset, &timestamp, appended):
                    break
                offset = base_offset + record.offset_delta
                if first <= offset < end:
                    keys.append(record.key.start, record.key.size)
                    values.append(record.value.start, record.value.size)
                    offsets[row] = offset
                    timestamps[row] = microseconds(timestamp)
                    types[row] = LOG_APPEND_TIME if appended else CREATE_TIME
                    row += 1
        finish(&cursor)
        return 0

    cdef int fill_headers(
        self, Py_buffer *body, int32_t count, int64_t base_offset, int64_t first, int64_t end
    ) except -1:
        """The headers of the same records, which are read once more."""
        cdef Cursor cursor
        cdef Cursor headers
        cdef Parsed record
        cdef Part key = Part(NULL, 0)
        cdef Part value = Part(NULL, 0)
        cdef int64_t entry
        cdef int32_t index
        begin(&cursor, <const uint8_t *>body.buf, body.len, count)
        self.lists.reserve(count, 0)
        for index in range(count):
            if not read_record(&cursor, &record):
                break
            if not first <= base_offset + record.offset_delta < end:
                continue
            headers_of(&record, &headers)
            for entry in range(record.header_count):
                if not next_header(&headers, &key, &value):
                    refuse(&headers)
                self.append_header_key(&key)
                self.header_values.reserve(1, max(value.size, 0))
                self.header_values.append(value.start, value.size)
            self.append_list(record.header_count)
        finish(&cursor)
        if self.lists.rows != self.keys.rows:
            raise RuntimeError("a batch was changed while it was read")
        return 0

    cdef void append_list(self, int64_t headers) noexcept:
        """A row of headers: as a row of bytes, but that the bytes are entries elsewhere."""
        self.lists.append(self.lists.bits_at, 0 if headers else -1)
        self.lists.used += headers
        self.lists.ends_at[self.lists.rows] = <int32_t>self.lists.used

    cdef int append_header_key(self, Part *key) except -1:
        cdef bytes text
        cdef int64_t at
        for at in range(key.size):
            if key.start[at] >= 0x80:
                text = (<const char *>key.start)[:key.size].decode("utf-8", "replace").encode()
                self.header_keys.reserve(1, len(text))
                self.header_keys.append(<const uint8_t *><const char *>text, len(text))
                return 0
        self.header_keys.reserve(1, key.size)
        self.header_keys.append(key.start, key.size)
        return 0

    def take(self):
        """Hand out the columns, and start over."""
        cdef Py_ssize_t rows = self.keys.rows
        headers = None
        if self.with_headers:
            entries = self.lists.used
            self.lists.used = 0  # There are no bytes of its own.
            validity, ends, _, null_count, *_ = self.lists.take()
            headers = Headers(
                validity,
                ends,
                entries,
                self.header_keys.take(),
                self.header_values.take(),
                null_count,
            )
        return Gathered(
            rows,
            self.keys.take(),
            self.values.take(),
            self.offsets.take(rows * sizeof(int64_t)),
            self.timestamps.take(rows * sizeof(int64_t)),
            self.types.take(rows * sizeof(int32_t)),
            headers,
        )


cdef inline int64_t microseconds(int64_t milliseconds) noexcept nogil:
    """The nearest that 64 bits can say: a producer may send any timestamp."""
    if milliseconds > INT64_MAX // MICROSECONDS:
        return INT64_MAX
    if milliseconds < INT64_MIN // MICROSECONDS:
        return INT64_MIN
    return milliseconds * MICROSECONDS
