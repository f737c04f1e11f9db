"""Bytes that are no message: DecodeError and nothing else, without memory for what they claim."""

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.wire.codec import DecodeError, decode, encode
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_fetch import OffsetFetchRequest

from .every_message import MESSAGE_VERSIONS, MESSAGES, as_in_version, filled, messages_of

MANY = settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@MANY
@given(cls=st.sampled_from(MESSAGES), data=st.data())
def test_changed_bytes_are_read_or_refused(cls: type[Message], data: st.DataObject) -> None:
    version = data.draw(st.integers(*cls.VERSIONS))
    written = bytearray(encode(as_in_version(data.draw(messages_of(cls)), version), version))
    for position, byte in data.draw(
        st.lists(st.tuples(st.integers(0, max(0, len(written) - 1)), st.binary(max_size=3)))
    ):
        written[position : position + 1] = byte
    try:
        decode(cls, version, bytes(written))
    except DecodeError:
        pass


@MANY
@given(message_version=st.sampled_from(MESSAGE_VERSIONS), body=st.binary(max_size=300))
def test_random_bytes_are_read_or_refused(
    message_version: tuple[type[Message], int], body: bytes
) -> None:
    cls, version = message_version
    try:
        decode(cls, version, body)
    except DecodeError:
        pass


@pytest.mark.parametrize("cls", MESSAGES)
def test_a_message_cut_off_anywhere_is_refused(cls: type[Message]) -> None:
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
        written = encode(filled(cls, version), version)
        for length in range(len(written)):
            with pytest.raises(DecodeError):
                decode(cls, version, written[:length])


def _claims_without_substance() -> Iterator[bytes]:
    """Lengths and counts of up to four billion, at every distance from the start."""
    for claim in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x7f\xff", b"\xff\xff\xff\x7f"):
        for before in range(40):
            yield bytes(before) + claim * 8
            yield b"\x01" * before + claim * 8


def test_no_memory_is_taken_for_what_is_only_claimed() -> None:
    claims = list(_claims_without_substance())
    for cls, version in MESSAGE_VERSIONS:
        decode(cls, version, encode(cls(), version))
    tracemalloc.start()
    try:
        for cls, version in MESSAGE_VERSIONS[::3]:
            for claim in claims[:: 1 + version]:
                try:
                    decode(cls, version, claim)
                except DecodeError:
                    pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (0, b"\xff\xff\xff\xff"),  # null topics, before null was legal
        (1, b"\xff\xff\xff\xfe"),  # minus two topics
        (1, b"\x00\x00\x00\x02\x00\x01a"),  # two topics, one there
        (1, b"\x00\x00\x00\x01\xff\xff"),  # a null name
        (1, b"\x00\x00\x00\x01\x00\x02\xc3\x28"),  # not UTF-8
        (9, b"\xff\xff\xff\xff\x0f\x00\x00\x00\x00"),  # four billion topics
        (9, b"\xff\xff\xff\xff\xff\x01"),  # a varint of six bytes
        (9, b"\x02\x00\x00\x00\x00\x00\x00"),  # a null name in compact form
        (12, b"\x01\x00\x00\x01\x05\xff\x01x"),  # a tagged field past the end
        (12, b"\x01\x00\x00\xff\xff\xff\xff\x0f"),  # four billion tagged fields
    ],
)
def test_malformed_metadata_requests_are_refused(version: int, body: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(MetadataRequest, version, body)


def test_strings_longer_than_kafka_allows_are_refused() -> None:
    too_long = b"\x81\x80\x02" + b"x" * 32768 + b"\x02y\x00"
    with pytest.raises(DecodeError):
        decode(ApiVersionsRequest, 3, too_long)


def test_unknown_tagged_fields_are_passed_over_everywhere() -> None:
    unknown = b"\x02" + b"\x63\x02ab" + b"\xac\x02\x80\x01" + bytes(128)
    body = b"\x02" + bytes(16) + b"\x02t" + unknown + b"\x01\x00" + unknown
    expected = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    assert decode(MetadataRequest, 12, body) == expected


@pytest.mark.parametrize("cls", [cls for cls in MESSAGES if cls.VERSIONS[1] >= cls.FLEXIBLE_FROM])
def test_unknown_tagged_fields_do_not_change_a_message(cls: type[Message]) -> None:
    for version in range(cls.FLEXIBLE_FROM, cls.VERSIONS[1] + 1):
        written = encode(cls(), version)
        assert written.endswith(b"\x00")
        tagged = written[:-1] + b"\x01\xc8\x01\x03abc"
        assert decode(cls, version, tagged) == cls()


@pytest.mark.parametrize(
    "section",
    [
        b"\x02\x00\x02\x02c\x00\x02\x02c",  # the cluster id twice
        b"\x01\x00\x03\x02c\x00",  # the cluster id, and a byte more
        b"\x01\x00\x01\x02c",  # the cluster id in fewer bytes than it has
        b"\x01\x01\x02\x00\x00",  # a replica state of two bytes
        b"\x01\x00\x00",  # a tag without a value
    ],
)
def test_malformed_tagged_fields_are_refused(section: bytes) -> None:
    plain = encode(FetchRequest(), 15)
    with pytest.raises(DecodeError):
        decode(FetchRequest, 15, plain[:-1] + section)


def test_elements_are_not_made_before_all_can_be_there() -> None:
    # A million groups of at least three bytes each are claimed, in a body of a thousand.
    body = b"\xc1\x84\x3d" + bytes(1000)
    with pytest.raises(DecodeError, match="1000000 in 1000 bytes"):
        decode(OffsetFetchRequest, 8, body)
