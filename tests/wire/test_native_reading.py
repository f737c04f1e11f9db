"""The readers in C and in Python make the same of the same bytes, whatever these are."""

from array import array
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ottla.coordinator.record_kinds import RECORD_KINDS
from ottla.wire.apis import KAFKA_VERSIONS
from ottla.wire.codec import MessageReader, decode, encode, native_reader, pure_reader
from ottla.wire.fields import DecodeError
from ottla.wire.headers import pure_request_header, read_request_header, write_request_header
from ottla.wire.message import Message

from .every_message import MESSAGE_VERSIONS, MESSAGES, as_in_version, filled, messages_of

RECORDS: list[type[Message]] = [
    *dict.fromkeys(each for kind in RECORD_KINDS.values() for each in (kind.key, kind.value))
]
# Without a compiler at install there is one reader only, and nothing to compare.
pytestmark = pytest.mark.skipif(
    MessageReader is None,
    reason="no C compiler was there at install: the reader in Python is the only one, and every "
    "other test of tests/wire runs with it",
)

MANY = settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
REFUSED = "refused"
PROBLEMS = (DecodeError, UnicodeDecodeError, IndexError, ValueError)


def exact(data: bytes) -> memoryview:
    """Bytes in memory that ends with them, so that a sanitizer sees one that is read beyond."""
    return memoryview(array("B", data)[:])


def outcome(read: Callable[[], object]) -> object:
    try:
        return read()
    except PROBLEMS:
        return REFUSED
    except Exception as problem:
        if type(problem).__name__ == "error":  # struct.error is no ValueError
            return REFUSED
        raise


def agreed(cls: type[Message], version: int, data: bytes, at: int = 0) -> object:
    found = outcome(lambda: native_reader(cls, version)(exact(data), at))
    assert found == outcome(lambda: pure_reader(cls, version)(data, at))
    return found


@pytest.mark.parametrize("cls", MESSAGES)
def test_every_message_of_every_version_is_read_alike(cls: type[Message]) -> None:
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
        message = filled(cls, version)
        written = encode(message, version)
        assert agreed(cls, version, b"xx" + written + b"y", 2) == (message, 2 + len(written))
        for length in range(len(written)):
            assert agreed(cls, version, written[:length]) == REFUSED


@MANY
@given(cls=st.sampled_from(MESSAGES), data=st.data())
def test_changed_bytes_are_read_alike(cls: type[Message], data: st.DataObject) -> None:
    version = data.draw(st.integers(*cls.VERSIONS))
    written = bytearray(encode(as_in_version(data.draw(messages_of(cls)), version), version))
    for position, byte in data.draw(
        st.lists(st.tuples(st.integers(0, max(0, len(written) - 1)), st.binary(max_size=3)))
    ):
        written[position : position + 1] = byte
    agreed(cls, version, bytes(written))


@MANY
@given(message_version=st.sampled_from(MESSAGE_VERSIONS), body=st.binary(max_size=300))
def test_random_bytes_are_read_alike(
    message_version: tuple[type[Message], int], body: bytes
) -> None:
    agreed(*message_version, body)


@pytest.mark.parametrize("cls", [*MESSAGES, *RECORDS])
def test_unknown_tags_leave_the_defaults_alike(cls: type[Message]) -> None:
    for version in range(max(cls.VERSIONS[0], cls.FLEXIBLE_FROM), cls.VERSIONS[1] + 1):
        written = encode(cls(), version)
        if written.endswith(b"\x00"):
            tagged = written[:-1] + b"\x01\x63\x02ab"
            assert agreed(cls, version, tagged) == (cls(), len(tagged))


def test_a_position_outside_of_the_buffer_is_refused() -> None:
    cls, version = MESSAGE_VERSIONS[0]
    for at in (-1, 1, 2**62):
        with pytest.raises(DecodeError, match=cls.__name__):
            decode(cls, version, b"", at)


KEYS_VERSIONS = [
    (int(key), version)
    for key, (first, last) in KAFKA_VERSIONS.items()
    for version in range(first, last + 1)
]


@MANY
@given(
    api=st.sampled_from(KEYS_VERSIONS),
    client_id=st.none() | st.text(max_size=20),
    tags=st.binary(max_size=8),
    cut=st.integers(0, 12),
)
@example((18, 4), None, b"\x01\xff\xff\xff\xff\x7f\x00", 0)
def test_headers_are_read_alike(
    api: tuple[int, int], client_id: str | None, tags: bytes, cut: int
) -> None:
    header = write_request_header(*api, 7, client_id)[:-1] + tags
    data = header[: len(header) - cut]
    found = outcome(lambda: read_request_header(exact(data)))
    assert found == outcome(lambda: pure_request_header(memoryview(data)))


@MANY
@given(data=st.binary(max_size=40))
def test_random_headers_are_read_alike(data: bytes) -> None:
    found = outcome(lambda: read_request_header(exact(data)))
    assert found == outcome(lambda: pure_request_header(memoryview(data)))
