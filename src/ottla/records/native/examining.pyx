# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""What is asked of a batch's records without making them: by the rules of `pure/examining.py`.

Long bodies are read without the GIL, so that a thread may do it beside the event loop.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t

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

if MOST_NAMED != MOST:
    raise ImportError("the two kernels name different numbers of records")

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
