"""The four codecs of Kafka, as Kafka's clients write and read them (through cramjam).

Rules kept here:
1. Nothing is decompressed past a limit: a small batch can state an enormous body. Memory is taken
   as the body fills it, not in advance.
2. What is not valid compressed data raises CORRUPT_MESSAGE, and nothing else.
3. snappy is written in the framing of the Java client (xerial), and read with or without it:
   librdkafka sends one raw block.
4. lz4 frames have independent blocks, the only ones that the Java client reads.
"""

from collections.abc import Callable
from enum import IntEnum
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from struct import Struct

import cramjam

from ottla.wire.errors import ErrorCode, KafkaError

LARGEST_BODY = 100 * 1024 * 1024
"""Default limit of a decompressed batch: what a whole request may have."""

GZIP_LEVEL = 6
ZSTD_LEVEL = 3
LZ4_LEVEL = 0
"""The fast one, as Kafka's clients: all others cost ten times as much and save 2 %."""

LZ4_PIECE = 1 << 20
"""What is copied at a time; other threads wait meanwhile."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + bytes((0, 0, 0, 1, 0, 0, 0, 1))
XERIAL_BLOCK = 32 * 1024
_SIZE = Struct(">i")

FIRST_GUESS = 8
"""Bodies are seldom more than eight times their compressed size."""
LARGE_BODY = 1 << 20
BUFFER_IS_FULL = "failed to write whole buffer"
"""How cramjam says that the output does not fit."""


class BodyTooLargeError(KafkaError):
    """A body passes the limit it was given; whether it is a body at all is not known."""

    def __init__(self, limit: int) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, f"a body of more than {limit} bytes")


class Codec(IntEnum):
    """What the attributes of a batch say about its body."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_NONE = 0
"""Codec.NONE, for the path that is hot: in Python 3.11 an enum's members are slow to get at."""


def compress(codec: Codec, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """Return the body of a batch in its compressed form; None is the codec's usual level."""
    if codec == _NONE:
        return bytes(data)
    match codec:
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data, level=GZIP_LEVEL if level is None else level))
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            frame = cramjam.lz4.Compressor(
                level=LZ4_LEVEL if level is None else level,
                content_checksum=False,
                block_linked=False,
            )
            for at in range(0, len(data), LZ4_PIECE):  # it takes nothing but bytes
                frame.compress(bytes(data[at : at + LZ4_PIECE]))
            return bytes(frame.finish())
        case _:
            return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL if level is None else level))


def decompress(codec: int, data: bytes | memoryview, limit: int = LARGEST_BODY) -> bytes:
    """Return the body of a batch; a body larger than the limit counts as corrupt."""
    return bytes(body_of(codec, data, limit))


def body_of(
    codec: int, data: bytes | memoryview, limit: int = LARGEST_BODY
) -> bytes | bytearray | memoryview:
    """Return the body of a batch as decompress does, and without a copy where none is needed.

    Other threads go on while a long one is decompressed.
    """
    if codec == _NONE:
        return data
    try:
        match codec:
            case Codec.GZIP:
                return _decompress_stream(cramjam.gzip.decompress_into, data, limit)
            case Codec.SNAPPY:
                return _decompress_snappy(data, limit)
            case Codec.LZ4:
                return _decompress_stream(cramjam.lz4.decompress_into, data, limit)
            case Codec.ZSTD:
                return _decompress_stream(cramjam.zstd.decompress_into, data, limit)
    except cramjam.DecompressionError as problem:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"codec {codec}: {problem}") from None
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"codec {codec} is not one of Kafka's")


def _decompress_stream(
    decompress_into: Callable[[bytes | memoryview, bytearray | mmap], int],
    data: bytes | memoryview,
    limit: int,
) -> bytearray | memoryview:
    """Decompress into a buffer that is enlarged, up to the limit, where it proves too small."""
    size = min(limit, FIRST_GUESS * len(data) + XERIAL_BLOCK)
    if size <= LARGE_BODY:
        body = bytearray(size)
        try:
            del body[decompress_into(data, body) :]
            return body
        except cramjam.DecompressionError as problem:
            if BUFFER_IS_FULL not in str(problem):
                raise
        if size == limit:
            raise BodyTooLargeError(limit)
    # Its pages come one by one as they are written to, and while other threads go on.
    pages = mmap(-1, limit, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    try:
        return memoryview(pages)[: decompress_into(data, pages)]
    except cramjam.DecompressionError as problem:
        if BUFFER_IS_FULL not in str(problem):
            raise
    raise BodyTooLargeError(limit)


def _compress_snappy(data: bytes | bytearray | memoryview) -> bytes:
    parts = [XERIAL_HEADER]
    for at in range(0, len(data), XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + XERIAL_BLOCK]))
        parts += (_SIZE.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: bytes | memoryview, limit: int) -> bytes:
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _decompress_block(data, limit)
    at = len(XERIAL_HEADER)
    if len(data) < at:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a snappy header is cut off")
    blocks = []
    while at < len(data):
        if at + _SIZE.size > len(data):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a snappy block without a size")
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        if size <= 0 or at + size > len(data):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a snappy block of {size} bytes")
        blocks.append(_decompress_block(data[at : at + size], limit))
        limit -= len(blocks[-1])
        at += size
    return b"".join(blocks)


def _decompress_block(data: bytes | memoryview, limit: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(data)
    if size > limit:
        raise BodyTooLargeError(limit)
    return bytes(cramjam.snappy.decompress_raw(data))
