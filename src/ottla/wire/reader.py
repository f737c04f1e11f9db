"""Compiles the reader of a message: one flat function for each message class and version.

Rules kept here:
1. Nothing is read past the end: fixed-size fields through `unpack_from` and indexing, which
   check by themselves; everything else after a comparison with the end.
2. A length or count is compared with the bytes that are left before anything is made for it.
3. Fixed-size fields that follow each other are read by one unpack, together with the length of
   what comes after them (in compact form: its first byte).
4. Unknown tagged fields are passed over; a known one must fill its stated size, and come once.
   There are at most MOST_TAGS, and MOST_ELEMENTS in the arrays of a request.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from struct import Struct, unpack_from
from typing import Any, NoReturn

from ottla.wire.fields import MOST_TAGS, DecodeError, uuid_of
from ottla.wire.message import Field, Message, Part
from ottla.wire.sizes import (
    FIXED_SIZE,
    LONGEST_STRING,
    most_elements,
    smallest_size,
)
from ottla.wire.source import Source


def compile_reader(cls: type[Message], version: int) -> Callable[..., Any]:
    """Return a function of (bytes, position) that gives the message and the position after it.

    On bytes that are not such a message it raises DecodeError, IndexError, struct.error or
    UnicodeDecodeError.
    """
    return _ReaderSource(cls, version).function


class _ReaderSource(Source):
    """Writes the source of a reader."""

    def __init__(self, cls: type[Message], version: int) -> None:
        super().__init__()
        self._version = version
        self._flexible = version >= cls.FLEXIBLE_FROM
        self._null = 0 if self._flexible else -1
        self._run: list[tuple[str, int, str]] = []
        for helper in (_fail, _more, _skip_tags, _too_many, uuid_of, unpack_from):
            self.constant(helper.__name__, helper)
        self._most = most_elements(cls)
        self.line(f"end = len(data); left = {self._most}")
        whole = self._read_part(cls, cls.__name__)
        self.line(f"return {whole}, at")
        self.function = self.compile("data, at", f"<reader of {cls.__name__} v{version}>")

    def _read_part(self, cls: type[Part], path: str) -> str:
        """Read a part; return the expression that makes it."""
        self.constant(cls.__name__, cls)
        fields = [field for field in cls.FIELDS if field.is_in(self._version)]
        plain = [field for field in fields if field.tag is None]
        tagged = [field for field in fields if field.tag is not None]
        values = {field.name: self._read_field(field, path) for field in plain}
        if not self._flexible:
            self._flush()
            return _call(cls, values)
        tags = self._fixed("B", 1, "tags")
        self._flush()
        if not tagged:
            with self.block(f"if {tags}:"):
                self.line(f"at = _skip_tags(data, at, {tags})")
            return _call(cls, values)
        whole = self.name("part")
        with self.block(f"if {tags}:"):
            values |= self._read_tagged(cls, tagged, tags, path)
            self.line(f"{whole} = {_call(cls, values)}")
        with self.block("else:"):
            without = {field.name: values[field.name] for field in plain}
            self.line(f"{whole} = {_call(cls, without)}")
        return whole

    def _read_tagged(
        self, cls: type[Part], tagged: list[Field], tags: str, path: str
    ) -> dict[str, str]:
        """Read a section of tagged fields; return the variables that then hold them."""
        defaults = cls()
        values = {field.name: self.name(field.name) for field in tagged}
        for field in tagged:
            default = self.constant(f"default_{values[field.name]}", getattr(defaults, field.name))
            # A default that can be changed must not be shared by messages.
            fresh = f"{default}[:]" if field.array else default
            is_none = getattr(defaults, field.name) is None
            if is_none:
                fresh = "None"
            elif not isinstance(field.type, str) and not field.array:
                fresh = f"{self.constant(field.type.__name__, field.type)}()"
            self.line(f"{values[field.name]} = {fresh}")
        seen, tag, size, stop = (self.name(hint) for hint in ("seen", "tag", "size", "stop"))
        self._finish_varint(tags)
        with self.block(f"if {tags} > {MOST_TAGS}:"):
            self.line(f"_fail('{path}: tagged fields', {tags}, end - at)")
        self.line(f"{seen} = 0")
        with self.block(f"for _ in range({tags}):"):
            for varint in (tag, size):
                self.line(f"{varint} = data[at]; at += 1")
                self._finish_varint(varint)
            self.line(f"{stop} = at + {size}")
            with self.block(f"if {stop} > end:"):
                self.line(f"_fail({path!r}, {size}, end - at)")
            keyword = "if"
            for field in tagged:
                bit = 1 << (field.tag or 0)
                with self.block(f"{keyword} {tag} == {field.tag}:"):
                    with self.block(f"if {seen} & {bit}:"):
                        self.line(f"_fail('{path}.{field.name} twice', {size}, end - at)")
                    self.line(f"{seen} |= {bit}")
                    value = self._read_field(field, path)
                    self._flush()
                    self.line(f"{values[field.name]} = {value}")
                    with self.block(f"if at != {stop}:"):
                        self.line(f"_fail('{path}.{field.name} (tagged)', {size}, {stop} - at)")
                keyword = "elif"
            with self.block("else:"):
                self.line(f"at = {stop}")
        return values

    def _read_field(self, field: Field, path: str) -> str:
        """Read one field; return the expression of its value, valid after the next flush."""
        path = f"{path}.{field.name}"
        nullable = field.is_nullable_in(self._version)
        if field.array:
            return self._read_array(field, path, nullable)
        if not isinstance(field.type, str):
            return self._read_single_part(field.type, path, nullable, field.tag is not None)
        return self._read_primitive(field.type, field.name, path, nullable)

    def _read_primitive(self, kind: str, hint: str, path: str, nullable: bool) -> str:
        if kind in FIXED_SIZE:
            variable = self._fixed(*FIXED_SIZE[kind], hint)
            return f"uuid_of({variable})" if kind == "uuid" else variable
        is_string = kind == "string"
        size = self._length("h" if is_string else "i", hint)
        value, stop = self.name(hint), self.name("stop")
        null = self._null
        longest = f" or {size} > {LONGEST_STRING + null + 1}" if is_string else ""
        body = ".decode()" if is_string else ""
        with self._unless_null(nullable, size, value):
            self.line(f"{stop} = at + {size}" + (" - 1" if self._flexible else ""))
            with self.block(f"if {size} <= {null} or {stop} > end{longest}:"):
                self.line(f"_fail({path!r}, {size} + {-1 - null}, end - at)")
            self.line(f"{value} = data[at:{stop}]{body}; at = {stop}")
        return value

    def _read_single_part(self, cls: type[Part], path: str, nullable: bool, tagged: bool) -> str:
        if not nullable:
            return self._read_part(cls, path)
        # Kafka marks null by -1, and in tagged fields by 0; what is there by 1.
        marker = self._fixed("b", 1, "marker")
        self._flush()
        value = self.name("part")
        self.line(f"if {marker} {'<=' if tagged else '<'} 0: {value} = None")
        with self.block("else:"):
            expression = self._read_part(cls, path)
            self.line(f"{value} = {expression}")
        return value

    def _read_array(self, field: Field, path: str, nullable: bool) -> str:
        count = self._length("i", field.name)
        value = self.name(field.name)
        smallest = smallest_size(field.type, self._version, self._flexible)
        assert smallest > 0, f"{path}: elements without bytes could be any number"
        with self._unless_null(nullable, count, value):
            if self._flexible:
                self.line(f"{count} -= 1")
            with self.block(f"if {count} < 0 or {count} * {smallest} > end - at:"):
                self.line(f"_fail({path!r}, {count}, end - at)")
            self.line(f"left -= {count}")
            with self.block("if left < 0:"):
                self.line(f"_too_many({path!r}, {self._most})")
            if isinstance(field.type, str) and field.type in FIXED_SIZE and field.type != "uuid":
                code, size = FIXED_SIZE[field.type]
                self.line(f"{value} = list(unpack_from(f'>{{{count}}}{code}', data, at))")
                self.line(f"at += {count} * {size}")
            else:
                self.line(f"{value} = []")
                with self.block(f"for _ in range({count}):"):
                    if isinstance(field.type, str):
                        element = self._read_primitive(field.type, "element", path, nullable=False)
                        self._flush()
                    else:
                        element = self._read_part(field.type, path)
                    self.line(f"{value}.append({element})")
        return value

    def _unless_null(self, nullable: bool, length: str, value: str) -> AbstractContextManager[None]:
        """Open the block of what is read where the length does not say null."""
        if not nullable:
            return nullcontext()
        self.line(f"if {length} == {self._null}: {value} = None")
        return self.block("else:")

    def _length(self, classic: str, hint: str) -> str:
        """Read a length or count: as sent, so one more than it says in compact form."""
        if not self._flexible:
            size = self._fixed(classic, 2 if classic == "h" else 4, f"size_{hint}")
            self._flush()
            return size
        size = self._fixed("B", 1, f"size_{hint}")
        self._flush()
        self._finish_varint(size)
        return size

    def _finish_varint(self, name: str) -> None:
        self.line(f"if {name} > 127: {name}, at = _more(data, at, {name})")

    def _fixed(self, code: str, size: int, hint: str) -> str:
        """Add a fixed-size value to the run that the next flush reads."""
        variable = self.name(hint)
        self._run.append((code, size, variable))
        return variable

    def _flush(self) -> None:
        """Read the run."""
        if not self._run:
            return
        codes = "".join(code for code, _, _ in self._run)
        names = ", ".join(name for _, _, name in self._run)
        if codes == "B":
            self.line(f"{names} = data[at]; at += 1")
        else:
            unpack = self.constant(
                f"unpack_{codes.replace('?', 'o')}", Struct(">" + codes).unpack_from
            )
            self.line(
                f"{names}, = {unpack}(data, at); at += {sum(size for _, size, _ in self._run)}"
            )
        self._run.clear()


def _call(cls: type[Part], values: dict[str, str]) -> str:
    return f"{cls.__name__}({', '.join(f'{name}={value}' for name, value in values.items())})"


def _fail(what: str, size: int, left: int) -> NoReturn:
    raise DecodeError(f"{what}: {size} in {left} bytes")


def _too_many(what: str, most: int) -> NoReturn:
    raise DecodeError(f"{what}: more than {most} elements")


def _more(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Read the rest of a varint of up to 32 bits, whose first byte has been read."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise DecodeError("a varint is larger than 32 bits")
            return value, at
    raise DecodeError("a varint is longer than five bytes")


def _skip_tags(data: bytes, at: int, count: int) -> int:
    """Pass over tagged fields, whose number (or its first byte) has been read."""
    if count > 127:
        count, at = _more(data, at, count)
        if count > MOST_TAGS:
            _fail("tagged fields", count, len(data) - at)
    for _ in range(count):
        tag, size = data[at], data[at + 1]
        at += 2
        if tag > 127:
            _, at = _more(data, at - 1, tag)
            size = data[at]
            at += 1
        if size > 127:
            size, at = _more(data, at, size)
        at += size
        if at > len(data):
            _fail("a tagged field", size, len(data) - at + size)
    return at
