"""Compiles the writer of a message: one flat function for each message class and version.

Rules kept here:
1. What the version does not carry is left out.
2. Null where the version has no null for it fails: no value is made up.
3. Tagged fields are written in ascending order, and only where they differ from their default.
4. Fixed-size fields that follow each other are written by one pack.
5. Where the parts of a message are asked for, large records are parts of their own: not copied.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from struct import Struct, pack
from typing import Any

from ottla.wire.fields import EncodeError, uvarint
from ottla.wire.message import Field, Message, Part
from ottla.wire.sizes import FIXED_SIZE, LONGEST_STRING
from ottla.wire.source import Source

LARGE_RECORDS = 16 << 10


def compile_writer(cls: type[Message], version: int) -> Callable[..., Any]:
    """Return a function of a message that gives its bytes.

    Where a value does not fit it raises EncodeError, struct.error, AttributeError, TypeError or
    UnicodeEncodeError.
    """
    return _WriterSource(cls, version).function


def compile_parts_writer(cls: type[Message], version: int) -> Callable[..., Any]:
    """The same, but the function gives a list of pieces that follow each other."""
    return _WriterSource(cls, version, in_parts=True).function


class _WriterSource(Source):
    """Writes the source of a writer."""

    def __init__(self, cls: type[Message], version: int, *, in_parts: bool = False) -> None:
        super().__init__()
        self._version = version
        self._flexible = version >= cls.FLEXIBLE_FROM
        self._in_parts = in_parts
        self._run: list[tuple[str, str]] = []
        self._out = "out"
        for helper in (_string_size, _tagged, uvarint):
            self.constant(helper.__name__, helper)
        self.line("out = bytearray()")
        if in_parts:
            self.line("parts = []")
        self._write_part(cls, "message")
        self._flush()
        if in_parts:
            # A last part without bytes would not push what was sent before it with MSG_MORE.
            self.line("if out or not parts: parts.append(out)")
        self.line("return parts" if in_parts else "return bytes(out)")
        self.function = self.compile("message", f"<writer of {cls.__name__} v{version}>")

    def _write_part(self, cls: type[Part], value: str) -> None:
        fields = [field for field in cls.FIELDS if field.is_in(self._version)]
        for field in fields:
            if field.tag is None:
                self._write_field(field, f"{value}.{field.name}")
        if not self._flexible:
            return
        tagged = [field for field in fields if field.tag is not None]
        if tagged:
            self._write_tagged(cls, sorted(tagged, key=lambda field: field.tag or 0), value)
        else:
            self._run.append(("x", ""))

    def _write_tagged(self, cls: type[Part], tagged: list[Field], value: str) -> None:
        """Write each field that is not its default into bytes of its own, then all of them."""
        self._flush()
        defaults = cls()
        tags = self.name("tags")
        self.line(f"{tags} = []")
        outer = self._out
        for field in tagged:
            default = self.constant(self.name("default"), getattr(defaults, field.name))
            with self.block(f"if {value}.{field.name} != {default}:"):
                self._out = self.name("out")
                self.line(f"{self._out} = bytearray()")
                self._write_field(field, f"{value}.{field.name}")
                self._flush()
                self.line(f"{tags}.append(({field.tag}, {self._out}))")
        self._out = outer
        self.line(f"{outer} += _tagged({tags}) if {tags} else b'\\0'")

    def _write_field(self, field: Field, value: str) -> None:
        nullable = field.is_nullable_in(self._version)
        if field.array:
            self._write_array(field, value, nullable)
        elif isinstance(field.type, str):
            self._write_primitive(field.type, value, nullable)
        elif nullable:
            self._write_nullable_part(field.type, value, 255 if field.tag is None else 0)
        else:
            self._write_part(field.type, value)

    def _write_primitive(self, kind: str, value: str, nullable: bool) -> None:
        if kind in FIXED_SIZE:
            # As a bool, None would pass for False; as a byte it fails, and True is a 1.
            code = "b" if kind == "bool" else FIXED_SIZE[kind][0]
            self._run.append((code, f"{value}.bytes" if kind == "uuid" else value))
            return
        data = self.name("data")
        self.line(f"{data} = {value}")
        is_string = kind == "string"
        with self._unless_none(nullable, data, "h" if is_string else "i"):
            if is_string:
                self.line(f"{data} = {data}.encode()")
            if self._flexible:
                self._write_compact_size(data, "_string_size" if is_string else "uvarint")
            else:
                self._run.append(("h" if is_string else "i", f"len({data})"))
                self._flush()
            if kind == "records" and self._in_parts:
                with self.block(f"if len({data}) > {LARGE_RECORDS}:"):
                    # What is no buffer would be found out only when half of the message has left.
                    self.line(f"memoryview({data}); parts += (out, {data}); out = bytearray()")
                self.line(f"else: out += {data}")
            else:
                self.line(f"{self._out} += {data}")

    def _write_compact_size(self, data: str, large: str) -> None:
        self._flush()
        size = self.name("size")
        self.line(f"{size} = len({data}) + 1")
        self.line(f"if {size} < 128: {self._out}.append({size})")
        self.line(f"else: {self._out} += {large}({size})")

    def _unless_none(
        self, nullable: bool, value: str, classic: str
    ) -> AbstractContextManager[None]:
        """Open the block of what is written where the value is not None."""
        if not nullable:
            return nullcontext()
        self._flush()
        null = b"\0" if self._flexible else b"\xff" * (2 if classic == "h" else 4)
        self.line(f"if {value} is None: {self._out} += {null!r}")
        return self.block("else:")

    def _write_nullable_part(self, cls: type[Part], value: str, null: int) -> None:
        self._flush()
        part = self.name("part")
        self.line(f"{part} = {value}")
        self.line(f"if {part} is None: {self._out}.append({null})")
        with self.block("else:"):
            self.line(f"{self._out}.append(1)")
            self._write_part(cls, part)
            self._flush()

    def _write_array(self, field: Field, value: str, nullable: bool) -> None:
        self._flush()
        items = self.name("items")
        self.line(f"{items} = {value}")
        with self._unless_none(nullable, items, "i"):
            if isinstance(field.type, str) and field.type in FIXED_SIZE and field.type != "uuid":
                code = "b" if field.type == "bool" else FIXED_SIZE[field.type][0]
                packer = _compact_numbers(code) if self._flexible else _classic_numbers(code)
                name = self.constant(f"numbers_{code}", packer)
                self.line(f"{self._out} += {name}({items})")
                return
            if self._flexible:
                self._write_compact_size(items, "uvarint")
            else:
                self._run.append(("i", f"len({items})"))
                self._flush()
            item = self.name("item")
            with self.block(f"for {item} in {items}:"):
                if isinstance(field.type, str):
                    self._write_primitive(field.type, item, nullable=False)
                else:
                    self._write_part(field.type, item)
                self._flush()

    def _flush(self) -> None:
        """Write the run."""
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        values = ", ".join(value for _, value in self._run if value)
        if not values:
            self.line(f"{self._out} += {bytes(len(codes))!r}")
        else:
            packer = self.constant(f"pack_{codes}", Struct(">" + codes).pack)
            self.line(f"{self._out} += {packer}({values})")
        self._run.clear()


def _string_size(size: int) -> bytes:
    if size > LONGEST_STRING + 1:
        raise EncodeError(f"a string of {size - 1} bytes is longer than {LONGEST_STRING}")
    return uvarint(size)


def _tagged(fields: list[tuple[int, bytearray]]) -> bytes:
    out = bytearray(uvarint(len(fields)))
    for tag, data in fields:
        out += uvarint(tag) + uvarint(len(data)) + data
    return bytes(out)


def _compact_numbers(code: str) -> Callable[[Sequence[float]], bytes]:
    """Return a writer of compact arrays of numbers; most have a few elements (replicas)."""
    few = [Struct(f">B{count}{code}").pack for count in range(16)]

    def write(numbers: Sequence[float]) -> bytes:
        count = len(numbers)
        if count < 16:
            return few[count](count + 1, *numbers)
        return uvarint(count + 1) + pack(f">{count}{code}", *numbers)

    return write


def _classic_numbers(code: str) -> Callable[[Sequence[float]], bytes]:
    """Return a writer of classic arrays of numbers."""

    def write(numbers: Sequence[float]) -> bytes:
        count = len(numbers)
        return pack(f">i{count}{code}", count, *numbers)

    return write
