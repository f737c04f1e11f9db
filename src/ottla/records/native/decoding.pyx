# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""The records inside a batch to Python values: native, by the rules of `pure/decoding.py`."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t

from ottla.records.native.parsing cimport (
    NONE,
    Cursor,
    Parsed,
    Part,
    begin,
    finish,
    headers_of,
    next_header,
    place,
    read_record,
    read_varint,
    refuse,
)

from ottla.records.record import Record, corrupt

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject *kind, Py_ssize_t items)

cdef tuple NO_HEADERS = ()


def decode_records(data, int32_t count, int64_t base_offset, int64_t base_timestamp, append_time):
    """Read the records of a batch's (decompressed) body.

    With an append time, that is the timestamp of all.
    """
    cdef Py_buffer body
    PyObject_GetBuffer(data, &body, PyBUF_SIMPLE)
    try:
        return records_of(&body, count, base_offset, base_timestamp, append_time)
    finally:
        PyBuffer_Release(&body)


cdef list records_of(
    Py_buffer *body, int32_t count, int64_t base_offset, int64_t base_timestamp, append_time
):
    cdef Cursor cursor
    cdef Parsed record
    cdef bint appended = append_time is not None
    cdef int64_t base = append_time if appended else base_timestamp
    cdef int64_t timestamp
    cdef int32_t index
    cdef list records = []
    begin(&cursor, <const uint8_t *>body.buf, body.len, count)
    for index in range(count):
        timestamp = base
        if not read_record(&cursor, &record):
            break
        if not place(&cursor, &record, base_offset, &timestamp, appended):
            break
        records.append(record_object(&record, base_offset + record.offset_delta, timestamp))
    finish(&cursor)
    return records


cdef object record_object(Parsed *record, int64_t offset, int64_t timestamp):
    """A Record, made as tuples are: its own constructor takes most of the time there is."""
    cdef object offset_number = offset
    cdef object timestamp_number = timestamp
    cdef object key = part_object(&record.key)
    cdef object value = part_object(&record.value)
    cdef object headers = header_list(record) if record.header_count else NO_HEADERS
    cdef object made = PyType_GenericAlloc(<PyTypeObject *>Record, 5)
    give(made, 0, offset_number)
    give(made, 1, timestamp_number)
    give(made, 2, key)
    give(made, 3, value)
    give(made, 4, headers)
    return made


cdef inline void give(object made, Py_ssize_t index, object item) noexcept:
    Py_INCREF(item)  # which the tuple then owns
    PyTuple_SET_ITEM(made, index, item)


cdef inline object part_object(Part *part):
    if part.size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char *>part.start, part.size)


cdef list header_list(Parsed *record):
    """The headers of a record that was read, and so checked."""
    cdef Cursor cursor
    cdef Part key = Part(NULL, 0)
    cdef Part value = Part(NULL, 0)
    cdef int64_t index
    cdef list headers = []
    headers_of(record, &cursor)
    for index in range(record.header_count):
        if not next_header(&cursor, &key, &value):
            refuse(&cursor)
        name = PyUnicode_DecodeUTF8(<const char *>key.start, key.size, "surrogateescape")
        headers.append((name, part_object(&value)))
    return headers


def locate_records(bytes body not None, int64_t count):
    """Where the records of a batch's (decompressed) body lie: the rules of `pure/locating.py`."""
    cdef Cursor cursor
    cdef const uint8_t *data = body
    cdef const uint8_t *start = data
    cdef const uint8_t *stop
    cdef const uint8_t *rest
    cdef int64_t index, size, timestamp_delta, offset_delta, key_size, value_size
    cdef object key
    cdef list found = []
    cursor.at = data
    cursor.end = data + len(body)
    cursor.problem = NONE
    for index in range(count):
        start = cursor.at
        size = read_varint(&cursor, 63)
        if cursor.problem:
            refuse(&cursor)
        if size <= 0 or size > cursor.end - cursor.at:
            corrupt(f"a record of {size} bytes with {cursor.end - cursor.at} left")
        stop = cursor.at + size
        cursor.at += 1
        timestamp_delta = read_varint(&cursor, 63)
        rest = cursor.at
        if not cursor.problem:
            offset_delta = read_varint(&cursor, 63)
        if not cursor.problem:
            key_size = read_varint(&cursor, 63)
        if cursor.problem:
            refuse(&cursor)
        if (key_size if key_size > 0 else 0) >= stop - cursor.at:
            corrupt(f"a record of {size} bytes has a key of {key_size}")
        key = None
        if key_size >= 0:
            key = PyBytes_FromStringAndSize(<const char *>cursor.at, key_size)
            cursor.at += key_size
        value_size = read_varint(&cursor, 63)
        if cursor.problem:
            refuse(&cursor)
        found.append(
            (start - data, rest - data, stop - data, timestamp_delta, offset_delta, key,
             value_size >= 0)
        )
        cursor.at = stop
    if cursor.at != cursor.end:
        corrupt(f"{cursor.end - cursor.at} bytes after the last record of a batch")
    return found
