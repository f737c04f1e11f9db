"""Forms that the protocol has and today's messages do not use, in a message made for the test."""

from typing import ClassVar
from uuid import UUID

import pytest
from hypothesis import given
from msgspec import field

from ottla.wire.codec import DecodeError, decode, encode
from ottla.wire.message import Field, Message, Part

from .every_message import as_in_version, messages_of


class Inner(Part, kw_only=True):
    number: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("number", "int16", "0+"),)


class Forms(Message, kw_only=True):
    """Classic in version 0, flexible in version 1."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 1

    ids: list[UUID] = field(default_factory=list)
    flags: list[bool] | None = field(default_factory=list)
    blobs: list[bytes] = field(default_factory=list)
    maybe: Inner | None = None
    inner: Inner = field(default_factory=Inner)
    tagged: Inner | None = field(default_factory=Inner)
    tagged_names: list[str] | None = field(default_factory=list)
    tagged_blob: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("ids", "uuid", "0+", array=True),
        Field("flags", "bool", "0+", array=True, nullable="0+"),
        Field("blobs", "bytes", "0+", array=True),
        Field("maybe", Inner, "0+", nullable="0+"),
        Field("inner", Inner, "0+"),
        Field("tagged", Inner, "1+", nullable="1+", tag=0),
        Field("tagged_names", "string", "1+", array=True, nullable="1+", tag=200),
        Field("tagged_blob", "bytes", "1+", tag=3),
    )


@given(messages_of(Forms))
def test_all_forms_are_read_again(message: Forms) -> None:
    for version in (0, 1):
        expected = as_in_version(message, version)
        assert decode(Forms, version, encode(expected, version)) == expected


def test_null_is_marked_by_minus_one_but_by_zero_in_a_tagged_field() -> None:
    start = b"\x01\x01\x01" + b"\xff" + b"\x00\x00\x00"
    assert encode(Forms(), 1) == start + b"\x00"
    assert encode(Forms(tagged=None), 1) == start + b"\x01\x00\x01\x00"
    assert encode(Forms(tagged=Inner(number=5)), 1) == start + b"\x01\x00\x04\x01\x00\x05\x00"


def test_tags_are_written_in_ascending_order() -> None:
    message = Forms(tagged=None, tagged_names=["a"], tagged_blob=b"b")
    assert encode(message, 1).endswith(
        b"\x03" + b"\x00\x01\x00" + b"\x03\x02\x02b" + b"\xc8\x01\x03\x02\x02a"
    )


@pytest.mark.parametrize("version", [0, 1])
def test_counts_are_refused_before_elements_are_made(version: int) -> None:
    count = b"\x00\x00\x00\x05" if version == 0 else b"\x06"
    with pytest.raises(DecodeError, match="ids: 5 in 79 bytes"):
        decode(Forms, version, count + bytes(79))
