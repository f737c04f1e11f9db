# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""Requests and responses to messages: native, by the rules of `wire/reader.py` and `headers.py`.

Rules kept here:
1. Every byte is read through a Cursor, which is compared with its end first; a size or count is
   compared with what is left before a pointer moves by it or anything is made for it.
2. What was read keeps nothing of the buffer.
3. Bytes that are no such message raise DecodeError, IndexError or UnicodeDecodeError.
4. Other threads have their turns while a long message is read, as they would have in Python.
5. The arrays of a request have MOST_ELEMENTS in all, and a section of tagged fields MOST_TAGS.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from ottla.wire.fields import MOST_TAGS, DecodeError, uuid_of
from ottla.wire.sizes import LONGEST_STRING, most_elements, smallest_size

cdef extern from "Python.h":
    object PyObject_Vectorcall(object, PyObject **, size_t, PyObject *)

cdef enum:
    MOST_FIELDS = 32
    MOST_API_KEYS = 128
    GIVES_WAY_AFTER = 2048  # elements

cdef enum Kind:
    BOOL
    INT8
    INT16
    UINT16
    INT32
    INT64
    FLOAT64
    UUID
    STRING
    BYTES
    PART

cdef dict KINDS = {
    "bool": BOOL,
    "int8": INT8,
    "int16": INT16,
    "uint16": UINT16,
    "int32": INT32,
    "int64": INT64,
    "float64": FLOAT64,
    "uuid": UUID,
    "string": STRING,
    "bytes": BYTES,
    "records": BYTES,
}
cdef int64_t LONGEST = LONGEST_STRING
cdef int64_t TAGS = MOST_TAGS

cdef struct Cursor:
    const uint8_t *at
    const uint8_t *end
    int64_t elements  # that were read so far
    int64_t most  # of them

cdef struct Spec:
    Kind kind
    bint array
    bint nullable
    int64_t smallest  # bytes of an element of an array
    int64_t tag  # -1 for none


cdef object refuse(str what, int64_t size, int64_t left):
    raise DecodeError(f"{what}: {size} in {left} bytes")


cdef int need(Cursor *cursor, int64_t size) except -1:
    if cursor.end - cursor.at < size:
        raise IndexError(f"{size} bytes wanted where {cursor.end - cursor.at} are left")
    return 0


cdef inline uint16_t big16(const uint8_t *at) noexcept nogil:
    return <uint16_t>(at[0] << 8 | at[1])


cdef inline uint32_t big32(const uint8_t *at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline uint64_t big64(const uint8_t *at) noexcept nogil:
    return <uint64_t>big32(at) << 32 | big32(at + 4)


cdef int64_t read_varint(Cursor *cursor) except -1:
    """An unsigned varint of at most 32 bits."""
    cdef uint64_t value = 0
    cdef uint8_t byte
    cdef int shift = 0
    while shift <= 28:
        need(cursor, 1)
        byte = cursor.at[0]
        cursor.at += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise IndexError("a varint is larger than 32 bits")
            return <int64_t>value
        shift += 7
    raise IndexError("a varint is longer than five bytes")


cdef int skip_tags(Cursor *cursor) except -1:
    """Pass over a section of tagged fields that nobody here knows."""
    cdef int64_t count = read_varint(cursor), size
    if count > TAGS:
        refuse("tagged fields", count, cursor.end - cursor.at)
    while count > 0:
        read_varint(cursor)
        size = read_varint(cursor)
        if size > cursor.end - cursor.at:
            raise IndexError(f"a tagged field of {size} in {cursor.end - cursor.at} bytes")
        cursor.at += size
        count -= 1
    return 0


cdef object read_fixed(Kind kind, Cursor *cursor):
    """A value that always takes the same number of bytes."""
    cdef const uint8_t *at = cursor.at
    cdef uint64_t bits
    cdef double number
    if kind == INT32:
        need(cursor, 4)
        cursor.at += 4
        return <int32_t>big32(at)
    if kind == INT16:
        need(cursor, 2)
        cursor.at += 2
        return <int16_t>big16(at)
    if kind == INT64:
        need(cursor, 8)
        cursor.at += 8
        return <int64_t>big64(at)
    if kind == BOOL:
        need(cursor, 1)
        cursor.at += 1
        return at[0] != 0
    if kind == INT8:
        need(cursor, 1)
        cursor.at += 1
        return <int8_t>at[0]
    if kind == UINT16:
        need(cursor, 2)
        cursor.at += 2
        return big16(at)
    if kind == UUID:
        need(cursor, 16)
        cursor.at += 16
        return uuid_of(PyBytes_FromStringAndSize(<const char *>at, 16))
    need(cursor, 8)
    cursor.at += 8
    bits = big64(at)
    memcpy(&number, &bits, 8)
    return number


cdef inline void read_element(Cursor *cursor) noexcept:
    """Count an element of an array, and let other threads have a turn now and then."""
    cursor.elements += 1
    if cursor.elements % GIVES_WAY_AFTER == 0:
        with nogil:
            pass


cdef class PartReader:
    """Reads one structure of a version, and those inside it."""

    cdef object cls
    cdef str path
    cdef bint flexible
    cdef int count  # of the fields that are not tagged
    cdef int total
    cdef Spec *specs
    cdef list names
    cdef tuple keywords
    cdef list parts  # the reader of each field that is a structure, or an array of them

    def __cinit__(self):
        self.specs = NULL

    def __init__(self, cls, int version, bint flexible, str path):
        cdef Spec *spec
        fields = [field for field in cls.FIELDS if field.is_in(version)]
        fields.sort(key=lambda field: field.tag is not None)
        self.cls = cls
        self.path = path
        self.flexible = flexible
        self.total = len(fields)
        self.count = sum(field.tag is None for field in fields)
        if self.total > MOST_FIELDS:
            raise ValueError(f"{path} has more than {MOST_FIELDS} fields")
        self.names = [field.name for field in fields]
        self.keywords = tuple(self.names[: self.count])
        self.parts = []
        self.specs = <Spec *>PyMem_Calloc(self.total + 1, sizeof(Spec))
        if self.specs == NULL:
            raise MemoryError
        for number, field in enumerate(fields):
            spec = &self.specs[number]
            is_part = not isinstance(field.type, str)
            spec.kind = PART if is_part else KINDS[field.type]
            spec.array = field.array
            spec.nullable = field.is_nullable_in(version)
            spec.smallest = smallest_size(field.type, version, flexible)
            spec.tag = -1 if field.tag is None else field.tag
            inner = f"{path}.{field.name}"
            self.parts.append(PartReader(field.type, version, flexible, inner) if is_part else None)
            if spec.array and spec.smallest <= 0:
                raise ValueError(f"{inner}: elements without bytes could be any number")

    def __dealloc__(self):
        PyMem_Free(self.specs)

    cdef str name_of(self, int number):
        return f"{self.path}.{self.names[number]}"

    cdef object read(self, Cursor *cursor):
        cdef PyObject *values[MOST_FIELDS]
        cdef int filled = 0
        cdef object value, whole
        try:
            while filled < self.count:
                value = self.read_field(filled, cursor)
                Py_INCREF(value)
                values[filled] = <PyObject *>value
                filled += 1
            whole = PyObject_Vectorcall(self.cls, values, 0, <PyObject *>self.keywords)
        finally:
            while filled > 0:
                filled -= 1
                Py_DECREF(<object>values[filled])
        if self.flexible:
            if cursor.at < cursor.end and cursor.at[0] == 0:
                cursor.at += 1
            elif self.count == self.total:
                skip_tags(cursor)
            else:
                self.read_tags(whole, cursor)
        return whole

    cdef int read_tags(self, object whole, Cursor *cursor) except -1:
        """Read the tagged fields into a structure that has the defaults of them all."""
        cdef int64_t count = read_varint(cursor), tag, size
        cdef uint64_t seen = 0
        cdef const uint8_t *stop
        cdef int number
        if count > TAGS:
            refuse(self.path + ": tagged fields", count, cursor.end - cursor.at)
        while count > 0:
            tag = read_varint(cursor)
            size = read_varint(cursor)
            if size > cursor.end - cursor.at:
                refuse(self.path, size, cursor.end - cursor.at)
            stop = cursor.at + size
            for number in range(self.count, self.total):
                if self.specs[number].tag == tag:
                    if seen >> number & 1:
                        refuse(self.name_of(number) + " twice", size, cursor.end - cursor.at)
                    seen |= <uint64_t>1 << number
                    setattr(whole, self.names[number], self.read_field(number, cursor))
                    if cursor.at != stop:
                        refuse(self.name_of(number) + " (tagged)", size, stop - cursor.at)
                    break
            else:
                cursor.at = stop
            count -= 1
        return 0

    cdef object read_field(self, int number, Cursor *cursor):
        cdef Spec *spec = &self.specs[number]
        if spec.array:
            return self.read_array(number, spec, cursor)
        if spec.kind == PART:
            return self.read_single_part(number, spec, cursor)
        return self.read_value(number, spec, cursor, spec.nullable)

    cdef object read_value(self, int number, Spec *spec, Cursor *cursor, bint nullable):
        """A primitive."""
        cdef int64_t size
        cdef const char *start
        if spec.kind < STRING:
            return read_fixed(spec.kind, cursor)
        size = self.read_size(spec.kind == STRING, cursor)
        if size == -1 and nullable:
            return None
        if size < 0 or size > cursor.end - cursor.at or (spec.kind == STRING and size > LONGEST):
            refuse(self.name_of(number), size, cursor.end - cursor.at)
        start = <const char *>cursor.at
        cursor.at += size
        if spec.kind == STRING:
            return PyUnicode_DecodeUTF8(start, size, NULL)
        return PyBytes_FromStringAndSize(start, size)

    cdef int64_t read_size(self, bint of_string, Cursor *cursor) except? -2:
        """A length or count; -1 stands for null."""
        cdef const uint8_t *at
        if self.flexible:
            return read_varint(cursor) - 1
        at = cursor.at
        if of_string:
            need(cursor, 2)
            cursor.at += 2
            return <int16_t>big16(at)
        need(cursor, 4)
        cursor.at += 4
        return <int32_t>big32(at)

    cdef object read_array(self, int number, Spec *spec, Cursor *cursor):
        cdef int64_t count = self.read_size(False, cursor)
        cdef list found
        cdef PartReader part
        if count == -1 and spec.nullable:
            return None
        if count < 0 or count > (cursor.end - cursor.at) // spec.smallest:
            refuse(self.name_of(number), count, cursor.end - cursor.at)
        if count > cursor.most - cursor.elements:
            raise DecodeError(f"{self.name_of(number)}: more than {cursor.most} elements")
        found = []
        if spec.kind == PART:
            part = self.parts[number]
            while count > 0:
                found.append(part.read(cursor))
                read_element(cursor)
                count -= 1
        else:
            while count > 0:
                found.append(self.read_value(number, spec, cursor, False))
                read_element(cursor)
                count -= 1
        return found

    cdef object read_single_part(self, int number, Spec *spec, Cursor *cursor):
        cdef PartReader part = self.parts[number]
        cdef int8_t marker
        if spec.nullable:
            # Kafka marks null by -1, and in tagged fields by 0; what is there by 1.
            need(cursor, 1)
            marker = <int8_t>cursor.at[0]
            cursor.at += 1
            if marker < 0 or (marker == 0 and spec.tag >= 0):
                return None
        return part.read(cursor)


cdef class MessageReader:
    """Reads a message of one class and version."""

    cdef PartReader whole
    cdef int64_t most

    def __init__(self, cls, int version):
        self.most = most_elements(cls)
        self.whole = PartReader(cls, version, version >= cls.FLEXIBLE_FROM, cls.__name__)

    def read(self, data, Py_ssize_t at):
        """The message that starts at a position of a buffer, and the position after it."""
        cdef Py_buffer buffer
        cdef Cursor cursor
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        try:
            if at < 0 or at > buffer.len:
                raise IndexError(f"position {at} in {buffer.len} bytes")
            cursor.elements = 0
            cursor.most = self.most
            cursor.at = <const uint8_t *>buffer.buf + at
            cursor.end = <const uint8_t *>buffer.buf + buffer.len
            message = self.whole.read(&cursor)
            return message, cursor.at - <const uint8_t *>buffer.buf
        finally:
            PyBuffer_Release(&buffer)


cdef class HeaderReader:
    """Reads the headers of requests, of all keys and versions."""

    cdef object cls
    cdef int first[MOST_API_KEYS]
    cdef int last[MOST_API_KEYS]

    def __init__(self, cls, dict flexible):
        self.cls = cls
        for key in range(MOST_API_KEYS):
            versions = flexible.get(key, range(0))
            self.first[key], self.last[key] = versions.start, versions.stop - 1

    def read(self, data):
        """The header at the start of a request (without its size)."""
        cdef Py_buffer buffer
        cdef Cursor cursor
        cdef int16_t key, version, size
        cdef const uint8_t *at
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        try:
            at = cursor.at = <const uint8_t *>buffer.buf
            cursor.end = at + buffer.len
            need(&cursor, 10)
            key, version = <int16_t>big16(at), <int16_t>big16(at + 2)
            size = <int16_t>big16(at + 8)
            cursor.at += 10
            client_id = None
            if size >= 0:
                need(&cursor, size)
                client_id = PyUnicode_DecodeUTF8(<const char *>cursor.at, size, NULL)
                cursor.at += size
            elif size < -1:
                refuse("a client id", size, cursor.end - cursor.at)
            if 0 <= key < MOST_API_KEYS and self.first[key] <= version <= self.last[key]:
                skip_tags(&cursor)
            return self.cls(key, version, <int32_t>big32(at + 4), client_id, cursor.at - at)
        except (IndexError, UnicodeDecodeError) as problem:
            raise DecodeError(f"a request's header: {problem}") from None
        finally:
            PyBuffer_Release(&buffer)
