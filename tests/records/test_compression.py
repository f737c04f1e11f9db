"""The codecs in the forms that Kafka's clients exchange, and bombs defused."""

import gzip
import os
import tracemalloc
from mmap import mmap

import cramjam
import lz4.frame  # type: ignore[import-untyped]  # it has no stubs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records.compression import XERIAL_BLOCK, XERIAL_HEADER, Codec, compress, decompress
from ottla.wire.errors import ErrorCode, KafkaError

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
SIZES = [1, 100, XERIAL_BLOCK, XERIAL_BLOCK + 1, 300_000]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", SIZES)
def test_what_is_compressed_comes_back(codec: Codec, size: int) -> None:
    for data in (bytes(size), os.urandom(size)):
        assert decompress(codec, compress(codec, data)) == data
        assert decompress(codec, memoryview(compress(codec, data))) == data


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [100, 3 << 20])
def test_any_buffer_is_compressed(codec: Codec, size: int) -> None:
    data = b"spam eggs " * (size // 10)
    pages = mmap(-1, len(data))
    pages.write(data)
    for buffer in (bytearray(data), memoryview(data), memoryview(pages)):
        assert compress(codec, buffer) == compress(codec, data)


def test_others_read_our_gzip_and_lz4() -> None:
    data = b"spam and eggs " * 10_000
    assert gzip.decompress(compress(Codec.GZIP, data)) == data
    assert lz4.frame.decompress(compress(Codec.LZ4, data)) == data


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("store_size", [True, False])
def test_any_lz4_frame_is_read(linked: bool, store_size: bool) -> None:
    data = b"spam and eggs " * 10_000
    frame = lz4.frame.compress(data, block_linked=linked, store_size=store_size)
    assert decompress(Codec.LZ4, frame) == data


def test_lz4_blocks_are_independent_as_the_java_client_demands() -> None:
    assert lz4.frame.get_frame_info(compress(Codec.LZ4, bytes(10**6)))["block_linked"] is False


def test_snappy_is_written_in_the_framing_of_the_java_client() -> None:
    assert compress(Codec.SNAPPY, b"x").startswith(
        bytes.fromhex("82534e4150505900 00000001 00000001")
    )


def test_snappy_is_read_without_framing() -> None:
    data = b"spam and eggs " * 10_000
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def refused(codec: int, data: bytes, limit: int = 10**6) -> str:
    with pytest.raises(KafkaError) as error:
        decompress(codec, data, limit)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE
    return str(error.value)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_takes_no_more_memory_than_the_limit_allows(codec: Codec) -> None:
    limit = 1_000_000
    bomb = compress(codec, bytes(50_000_000))
    tracemalloc.start()
    try:
        refused(codec, bomb, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * limit


@pytest.mark.parametrize("codec", COMPRESSING)
def test_the_limit_itself_is_allowed(codec: Codec) -> None:
    data = bytes(1_000_000)
    assert decompress(codec, compress(codec, data), len(data)) == data
    refused(codec, compress(codec, data), len(data) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_cut_off_data_is_refused(codec: Codec) -> None:
    whole = compress(codec, os.urandom(1000))
    for length in range(0, len(whole), 7):
        if codec is Codec.SNAPPY and length == len(XERIAL_HEADER):
            continue
        refused(codec, whole[:length])


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    assert "not one of Kafka's" in refused(codec, b"data")


@pytest.mark.parametrize(
    "blocks",
    [
        b"\x00\x00",  # a size cut off
        b"\x00\x00\x00\x00",  # an empty block
        b"\xff\xff\xff\xff",  # a negative size
        b"\x7f\xff\xff\xff\x00",  # a size past the end
        b"\x00\x00\x00\x06\xff\xff\xff\xff\x0f\x00",  # four billion bytes claimed
    ],
)
def test_malformed_snappy_blocks_are_refused(blocks: bytes) -> None:
    refused(Codec.SNAPPY, XERIAL_HEADER + blocks)


@settings(max_examples=300, deadline=None)
@given(codec=st.sampled_from(COMPRESSING), data=st.binary(max_size=200))
def test_random_data_is_read_or_refused(codec: Codec, data: bytes) -> None:
    try:
        decompress(codec, data, 10**6)
    except KafkaError as error:
        refusal = error.code
    else:
        return
    assert refusal is ErrorCode.CORRUPT_MESSAGE
