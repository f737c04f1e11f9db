"""Request and response headers, with kio's as the oracle."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1 import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2 import RequestHeader as KioHeaderV2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from ottla.wire.apis import FIRST_FLEXIBLE, KAFKA_VERSIONS, ApiKey
from ottla.wire.fields import DecodeError
from ottla.wire.headers import (
    RequestHeader,
    has_flexible_response_header,
    is_flexible,
    read_request_header,
    read_response_header,
    write_request_header,
    write_response_header,
)

from .every_message import MESSAGES

API_VERSIONS = [
    (int(key), version)
    for key, (first, last) in KAFKA_VERSIONS.items()
    for version in range(first, last + 1)
]
apis = st.sampled_from(API_VERSIONS)
int32s = st.integers(-(2**31), 2**31 - 1)
client_ids = st.none() | st.text(max_size=20)
UNKNOWN_TAGS = b"\x02\x05\x01a\x81\x01\x00"


@given(apis, int32s, client_ids)
def test_a_request_header_is_written_as_kio_writes_it_and_read_again(
    api: tuple[int, int], correlation_id: int, client_id: str | None
) -> None:
    key, version = api
    written = write_request_header(key, version, correlation_id, client_id)
    kio_header = (KioHeaderV2 if is_flexible(key, version) else KioHeaderV1)(
        request_api_key=i16(key),
        request_api_version=i16(version),
        correlation_id=i32(correlation_id),
        client_id=client_id,
    )
    with io.BytesIO() as buffer:
        entity_writer(type(kio_header))(buffer, kio_header)
        assert written == buffer.getvalue()
    header = read_request_header(memoryview(written + b"body"))
    assert header == RequestHeader(key, version, correlation_id, client_id, len(written))


@given(apis, client_ids)
def test_a_request_header_cut_off_anywhere_is_refused(
    api: tuple[int, int], client_id: str | None
) -> None:
    written = write_request_header(*api, 7, client_id)
    for length in range(len(written)):
        with pytest.raises(DecodeError):
            read_request_header(memoryview(written)[:length])


@given(st.binary(max_size=40))
def test_random_bytes_are_a_header_or_refused(data: bytes) -> None:
    try:
        header = read_request_header(memoryview(data))
    except DecodeError:
        return
    assert header.body_at <= len(data)


def test_unknown_tagged_fields_are_passed_over() -> None:
    written = write_request_header(ApiKey.METADATA, 12, 7, "me")[:-1] + UNKNOWN_TAGS
    assert read_request_header(memoryview(written)).body_at == len(written)
    answer = write_response_header(ApiKey.METADATA, 12, 7)[:-1] + UNKNOWN_TAGS
    assert read_response_header(memoryview(answer), ApiKey.METADATA, 12) == (7, len(answer))


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x03\x00\x00\x00\x00\x00\x07\xff\xfe",  # a client id of minus two bytes
        b"\x00\x03\x00\x00\x00\x00\x00\x07\x7f\xff",  # of 32767, none there
        b"\x00\x03\x00\x00\x00\x00\x00\x07\x00\x01\xff",  # not UTF-8
        b"\x00\x03\x00\x0c\x00\x00\x00\x07\xff\xff\x01\x00\xff\xff\xff\xff\x0f",  # a giant tag
    ],
)
def test_malformed_headers_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_request_header(memoryview(data))


@pytest.mark.parametrize(
    ("api_key", "api_version", "flexible"),
    [
        (ApiKey.API_VERSIONS, 99, True),
        (ApiKey.API_VERSIONS, 2, False),
        (ApiKey.API_VERSIONS, -1, False),
        (ApiKey.METADATA, 99, False),
        (4711, 3, False),
        (-1, -1, False),
    ],
)
def test_a_header_nobody_knows_can_still_be_answered(
    api_key: int, api_version: int, flexible: bool
) -> None:
    written = write_request_header(api_key, api_version, 7, "me")
    assert len(written) == 12 + flexible
    header = read_request_header(memoryview(written))
    assert header == RequestHeader(api_key, api_version, 7, "me", len(written))


@given(apis, int32s)
def test_a_response_header_is_read_again(api: tuple[int, int], correlation_id: int) -> None:
    written = write_response_header(*api, correlation_id)
    assert read_response_header(memoryview(written + b"body"), *api) == (
        correlation_id,
        len(written),
    )
    for length in range(len(written)):
        with pytest.raises(DecodeError):
            read_response_header(memoryview(written)[:length], *api)


@pytest.mark.parametrize("version", range(5))
def test_the_answer_to_api_versions_has_the_short_header(version: int) -> None:
    assert not has_flexible_response_header(ApiKey.API_VERSIONS, version)


def test_the_tables_of_apis_agree_with_the_messages() -> None:
    assert {cls.API_KEY for cls in MESSAGES} - {-1} == set(ApiKey)
    for cls in MESSAGES:
        if cls.API_KEY < 0:
            continue
        key = ApiKey(cls.API_KEY)
        assert key.name.replace("_", "").lower() in cls.__name__.lower()
        assert FIRST_FLEXIBLE[key] == cls.FLEXIBLE_FROM
        first, last = KAFKA_VERSIONS[key]
        # Kafka says that it takes Produce from 0 on, and serves it from 3 on.
        assert cls.VERSIONS[0] == (3 if key is ApiKey.PRODUCE else first)
        assert cls.VERSIONS[1] >= last
