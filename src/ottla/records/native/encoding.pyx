# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""Records and rows of Arrow columns to the inside of a batch: native, by the rules of
`pure/encoding.py`.

Beyond those rules: sizes are added up first, and then as much memory is taken as will be filled.
"""

cimport cython
from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from ottla.records.native.hashing cimport murmur2, murmur64
from ottla.records.native.parsing cimport Part
from ottla.records.native.writing cimport part_size, write_part, write_varint, zigzag_size

import array

from ottla.records.hashing import NULL as _NULL
from ottla.records.pure.encoding import LARGEST_INSIDE as _LARGEST_INSIDE
from ottla.records.pure.encoding import group as group_of_any
from ottla.records.record import INT32_MAX as _INT32_MAX

cdef int64_t LARGEST_INSIDE = _LARGEST_INSIDE
cdef int64_t INT32_MAX = _INT32_MAX
cdef uint64_t HASH_OF_NULL = _NULL
cdef int64_t MOST_NUMBERS = 1 << 20  # that `group` counts in a table
cdef array.array NO_NUMBERS = array.array("i")


# Records


def encode_records(records, base_offset, base_timestamp):
    """Return the body of a batch. Offsets must grow from record to record."""
    cdef list plain = []
    cdef int64_t last = -1
    cdef int64_t offset_delta
    cdef int64_t timestamp_delta
    cdef int64_t inside
    cdef int64_t whole = 0
    cdef Part key
    cdef Part value
    cdef list headers
    for record in records:
        offset, timestamp, key_object, value_object, header_list = record
        offset_delta = delta_of(offset, base_offset, last)
        last = offset_delta
        timestamp_delta = timestamp_delta_of(timestamp - base_timestamp)
        key_object, value_object = bytes_of(key_object), bytes_of(value_object)
        headers = headers_of(header_list)
        inside = (
            1
            + zigzag_size(timestamp_delta)
            + zigzag_size(offset_delta)
            + part_size(part_of(key_object))
            + part_size(part_of(value_object))
            + zigzag_size(len(headers) // 2)
        )
        for item in headers:
            inside += part_size(part_of(item))
        if inside > INT32_MAX:
            raise ValueError(f"a record of {inside} bytes does not fit in a batch")
        whole += zigzag_size(inside) + inside
        plain.append((inside, timestamp_delta, offset_delta, key_object, value_object, headers))
    body = PyBytes_FromStringAndSize(NULL, whole)
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(body)
    for inside, timestamp_delta, offset_delta, key_object, value_object, headers in plain:
        at = write_varint(at, inside)
        at[0] = 0
        at = write_varint(at + 1, timestamp_delta)
        at = write_varint(at, offset_delta)
        at = write_part(at, part_of(key_object))
        at = write_part(at, part_of(value_object))
        at = write_varint(at, len(headers) // 2)
        for item in headers:
            at = write_part(at, part_of(item))
    return body


cdef int64_t delta_of(object offset, object base_offset, int64_t last) except? -1:
    delta = offset - base_offset
    if not last < delta <= INT32_MAX:
        raise ValueError(f"offset {offset} does not fit in a batch from {base_offset}")
    return delta


cdef int64_t timestamp_delta_of(object delta) except? -1:
    try:
        return delta
    except OverflowError:
        raise ValueError(f"{delta} takes more than 64 bits") from None


cdef inline object bytes_of(object data):
    """Bytes stay as they are; what else has bytes is copied."""
    return data if data is None or type(data) is bytes else bytes(memoryview(data))


cdef inline Part part_of(object data):
    """The bytes of None or of a bytes object."""
    if data is None:
        return Part(NULL, -1)
    return Part(<const uint8_t *>PyBytes_AS_STRING(data), len(<bytes>data))


cdef list headers_of(object headers):
    """Keys and values by turns."""
    cdef list parts = []
    for key, value in headers:
        parts.append(key.encode("utf-8", "surrogateescape"))
        parts.append(bytes_of(value))
    return parts


# Rows of columns


@cython.final
cdef class View:
    """The bytes of any object that has some, for as long as this lives."""

    cdef Py_buffer buffer
    cdef bint held
    cdef const uint8_t *start
    cdef int64_t size

    def __cinit__(self, data):
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.held = True
        self.start = <const uint8_t *>self.buffer.buf
        self.size = self.buffer.len

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)


@cython.final
cdef class Ranges:
    """Where each row of a column begins and ends in something of a known size, or is null."""

    cdef View offsets
    cdef View validity
    cdef const uint8_t *bits  # NULL where nothing is null
    cdef int64_t first
    cdef bint large

    def __cinit__(self, offsets, validity, int64_t first, bint large, int64_t rows, int64_t end):
        cdef int64_t row
        cdef int64_t last = 0
        cdef int64_t offset
        self.offsets = View(offsets)
        self.first = first
        self.large = large
        if first < 0 or (first + rows + 1) * (8 if large else 4) > self.offsets.size:
            raise ValueError(f"a column with offsets for less than {rows} rows")
        for row in range(rows + 1):
            offset = self.at(row)
            if not last <= offset <= end:
                raise ValueError(f"a column's offsets pass its end at {end}")
            last = offset
        if validity is not None:
            self.validity = View(validity)
            if (first + rows + 7) // 8 > self.validity.size:
                raise ValueError(f"a column with validity for less than {rows} rows")
            self.bits = self.validity.start

    cdef inline int64_t at(self, int64_t row) noexcept nogil:
        """Where a row begins, and the one before it ends."""
        cdef int32_t narrow
        cdef int64_t wide
        row += self.first
        if self.large:
            memcpy(&wide, self.offsets.start + row * 8, 8)
            return wide
        memcpy(&narrow, self.offsets.start + row * 4, 4)
        return narrow

    cdef inline bint is_null(self, int64_t row) noexcept nogil:
        row += self.first
        return self.bits != NULL and not self.bits[row >> 3] >> (row & 7) & 1


@cython.final
cdef class Column:
    """A column of bytes; one that is not there is null in every row."""

    cdef bint is_there
    cdef Ranges ranges
    cdef View data

    def __cinit__(self, column, int64_t rows):
        if column is None or not rows:
            return
        validity, offsets, data, _, first, large = column
        self.data = View(data)
        self.ranges = Ranges(offsets, validity, first, large, rows, self.data.size)
        self.is_there = True

    cdef inline Part part(self, int64_t row) noexcept nogil:
        cdef Part part
        cdef int64_t start
        if not self.is_there or self.ranges.is_null(row):
            part.start = NULL
            part.size = -1
            return part
        start = self.ranges.at(row)
        part.start = self.data.start + start
        part.size = self.ranges.at(row + 1) - start
        return part


@cython.final
cdef class Chosen:
    """Row numbers, each checked when it is read: those of a buffer, or all."""

    cdef View positions
    cdef const uint8_t *numbers  # NULL for all rows
    cdef int64_t rows
    cdef int64_t count

    def __cinit__(self, positions, int64_t rows):
        self.rows = self.count = rows
        self.numbers = NULL
        if positions is not None:
            self.positions = View(positions)
            self.numbers = self.positions.start
            self.count = self.positions.size // sizeof(int32_t)

    cdef inline int64_t unchecked(self, int64_t index) noexcept nogil:
        """A row's number, whatever it is."""
        cdef int32_t row
        if self.numbers == NULL:
            return index
        memcpy(&row, self.numbers + index * <int64_t>sizeof(int32_t), sizeof(int32_t))
        return row

    cdef inline int64_t row(self, int64_t index) except -1:
        cdef int32_t row
        if self.positions is None:
            return index
        memcpy(&row, self.positions.start + index * sizeof(int32_t), sizeof(int32_t))
        if not 0 <= row < self.rows:
            raise IndexError(f"row {row} of {self.rows}")
        return row


@cython.final
cdef class RowEncoder:
    """Rows of columns, to be written."""

    cdef int64_t rows
    cdef Column keys
    cdef Column values
    cdef Ranges lists  # None where no row has headers
    cdef Column header_keys
    cdef Column header_values

    def __cinit__(self, int64_t rows, key, value, headers):
        self.rows = rows
        self.keys = Column(key, rows)
        self.values = Column(value, rows)
        if headers is None or not rows:
            return
        validity, offsets, count, keys, values, _, first, large = headers
        self.lists = Ranges(offsets, validity, first, large, rows, count)
        self.header_keys = Column(keys, count)
        self.header_values = Column(values, count)

    def partitions(self, uint32_t count):
        """The partition of each keyed row; -1 for those without a key."""
        cdef array.array numbers = array.clone(NO_NUMBERS, self.rows, zero=False)
        cdef int *out = numbers.data.as_ints
        cdef int64_t row
        cdef Part key
        with nogil:
            for row in range(self.rows):
                key = self.keys.part(row)
                out[row] = -1 if key.size < 0 else <int>((murmur2(key) & 0x7FFFFFFF) % count)
        return numbers

    def encode(self, positions, int64_t start, int64_t max_bytes):
        """Records of the rows at the positions from `start` on, up to this many bytes; and the next
        start.
        """
        cdef Chosen chosen = Chosen(positions, self.rows)
        cdef int64_t limit = min(max_bytes, LARGEST_INSIDE)
        if self.lists is None:
            return self.encode_plain(chosen, start, limit)
        return self.encode_with_headers(chosen, start, limit)

    cdef tuple encode_plain(self, Chosen chosen, int64_t start, int64_t limit):
        """Rows without headers: nothing in them can be wrong but their size, so no Python is needed
        between the first and the last.
        """
        cdef int64_t whole = 0
        cdef int64_t inside = 0
        cdef int64_t size
        cdef int64_t row = 0
        cdef int64_t index
        cdef int64_t at = start
        cdef bint outside = False
        cdef uint8_t *out
        with nogil:
            while at < chosen.count:
                row = chosen.unchecked(at)
                if row < 0 or row >= self.rows:
                    outside = True
                    break
                inside = self.plain_size(row, at - start)
                size = zigzag_size(inside) + inside
                if whole + size > limit and (at > start or size > LARGEST_INSIDE):
                    break
                whole += size
                at += 1
        if outside:
            raise IndexError(f"row {row} of {self.rows}")
        if at == start:
            raise ValueError(f"a row of {inside} bytes does not fit in a batch")
        body = PyBytes_FromStringAndSize(NULL, whole)
        out = <uint8_t *>PyBytes_AS_STRING(body)
        with nogil:
            for index in range(start, at):
                out = self.write_plain(out, chosen.unchecked(index), index - start)
        return body, at

    cdef inline int64_t plain_size(self, int64_t row, int64_t delta) noexcept nogil:
        """As inside_size, of a row without headers: attributes, timestamp delta, and their count."""
        return (
            3
            + zigzag_size(delta)
            + part_size(self.keys.part(row))
            + part_size(self.values.part(row))
        )

    cdef inline uint8_t *write_plain(
        self, uint8_t *at, int64_t row, int64_t delta
    ) noexcept nogil:
        cdef Part key = self.keys.part(row)
        cdef Part value = self.values.part(row)
        at = write_varint(at, 3 + zigzag_size(delta) + part_size(key) + part_size(value))
        at[0] = 0
        at[1] = 0
        at = write_varint(at + 2, delta)
        at = write_part(at, key)
        at = write_part(at, value)
        at[0] = 0
        return at + 1

    cdef tuple encode_with_headers(self, Chosen chosen, int64_t start, int64_t limit):
        cdef int64_t whole = 0
        cdef int64_t inside
        cdef int64_t size
        cdef int64_t index
        cdef int64_t at = start
        cdef uint8_t *out
        while at < chosen.count:
            inside = self.inside_size(chosen.row(at), at - start)
            size = zigzag_size(inside) + inside
            if whole + size > limit:
                if at > start:
                    break
                if size > LARGEST_INSIDE:
                    raise ValueError(f"a row of {inside} bytes does not fit in a batch")
            whole += size
            at += 1
        body = PyBytes_FromStringAndSize(NULL, whole)
        out = <uint8_t *>PyBytes_AS_STRING(body)
        for index in range(start, at):
            out = self.write(out, chosen.row(index), index - start)
        return body, at

    def digest(self, positions):
        """The sum of the hashes of the rows at the positions, or of all, in 64 bits."""
        cdef Chosen chosen = Chosen(positions, self.rows)
        cdef uint64_t total = 0
        cdef int64_t index
        for index in range(chosen.count):
            total += self.row_hash(chosen.row(index))
        return total

    cdef int64_t inside_size(self, int64_t row, int64_t delta) except -1:
        """Bytes of a record behind its size."""
        cdef int64_t size = (
            2  # attributes and timestamp delta
            + zigzag_size(delta)
            + part_size(self.keys.part(row))
            + part_size(self.values.part(row))
        )
        cdef int64_t first
        cdef int64_t end
        cdef int64_t entry
        self.headers(row, &first, &end)
        size += zigzag_size(end - first)
        for entry in range(first, end):
            size += part_size(self.header_key(entry)) + part_size(self.header_values.part(entry))
        return size

    cdef uint8_t *write(self, uint8_t *at, int64_t row, int64_t delta) except NULL:
        cdef int64_t first
        cdef int64_t end
        cdef int64_t entry
        at = write_varint(at, self.inside_size(row, delta))
        at[0] = at[1] = 0  # attributes and timestamp delta
        at = write_varint(at + 2, delta)
        at = write_part(at, self.keys.part(row))
        at = write_part(at, self.values.part(row))
        self.headers(row, &first, &end)
        at = write_varint(at, end - first)
        for entry in range(first, end):
            at = write_part(at, self.header_key(entry))
            at = write_part(at, self.header_values.part(entry))
        return at

    cdef uint64_t row_hash(self, int64_t row) except? 0:
        """A hash in which each part of a row counts, and where it stands."""
        cdef int64_t first
        cdef int64_t end
        cdef int64_t entry
        cdef uint64_t h = chained(chained(0, self.keys.part(row)), self.values.part(row))
        self.headers(row, &first, &end)
        for entry in range(first, end):
            h = chained(chained(h, self.header_key(entry)), self.header_values.part(entry))
        return h

    cdef inline void headers(self, int64_t row, int64_t *first, int64_t *end) noexcept:
        """Which entries are a row's headers."""
        if self.lists is None or self.lists.is_null(row):
            first[0] = end[0] = 0
        else:
            first[0] = self.lists.at(row)
            end[0] = self.lists.at(row + 1)

    cdef Part header_key(self, int64_t entry) except *:
        cdef Part key = self.header_keys.part(entry)
        if key.size < 0:
            raise ValueError("a header without a key")
        return key


def group(numbers):
    """The positions at which each number stands, in order."""
    cdef View view = View(numbers)
    cdef const int32_t *each = <const int32_t *>view.start
    cdef int64_t count = view.size // sizeof(int32_t)
    cdef int32_t least
    cdef int32_t most
    cdef int64_t index
    cdef dict groups = {}
    if not count:
        return groups
    least = most = each[0]
    for index in range(count):
        least = min(least, each[index])
        most = max(most, each[index])
    if <int64_t>most - least >= MOST_NUMBERS:
        return group_of_any(numbers)
    # For each number first how often it stands there, then where its next position goes.
    cdef array.array table = array.clone(NO_NUMBERS, <int64_t>most - least + 1, zero=True)
    cdef array.array positions = array.clone(NO_NUMBERS, count, zero=False)
    cdef int *places = table.data.as_ints
    cdef int *out = positions.data.as_ints
    cdef int total = 0
    cdef int many
    for index in range(count):
        places[each[index] - least] += 1
    for index in range(len(table)):
        many = places[index]
        places[index] = total
        total += many
    for index in range(count):
        out[places[each[index] - least]] = index
        places[each[index] - least] += 1
    total = 0
    for index in range(len(table)):
        if places[index] > total:
            groups[index + least] = positions[total : places[index]]
            total = places[index]
    return groups


# Hashes of rows


cdef inline uint64_t chained(uint64_t h, Part part) noexcept nogil:
    cdef Part nothing
    if part.size < 0:
        nothing.start = NULL
        nothing.size = 0
        return murmur64(nothing, h ^ HASH_OF_NULL)
    return murmur64(part, h)
