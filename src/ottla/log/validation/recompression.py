"""Recompressing batches in their topic's codec (`compression.type`), whatever the producer chose.

Rules kept here:
1. A batch that has the codec already stays as it is, as in Kafka; levels make no difference to it.
2. Only the body's form changes: records, offsets, timestamps, sequences and the producer stay.
3. What comes out must fit into `max.message.bytes`, too.
4. Bytes that are not what their codec says are refused, never stored.
"""

from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.log.config import LogConfig
from ottla.records.compression import Codec, compress
from ottla.wire.batch import CODEC_MASK, CRC_COVERS_FROM, HEADER, HEADER_SIZE, LOG_OVERHEAD
from ottla.wire.errors import ErrorCode, KafkaError

PRODUCER: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"
_KAFKAS_FAST_LZ4: Final = 9
"""Kafka's default level of lz4 stands for its fast compressor, all others for the slow one."""


class TargetCompression(NamedTuple):
    """The codec of a topic, and how hard it tries."""

    codec: Codec
    level: int | None
    largest_batch: int


def wanted(config: LogConfig) -> TargetCompression | None:
    """What a topic wants; None if each producer's choice stays."""
    if config.compression_type == PRODUCER:
        return None
    largest = min(config.max_message_bytes, config.segment_bytes)
    if config.compression_type == UNCOMPRESSED:
        return TargetCompression(Codec.NONE, None, largest)
    codec = Codec[config.compression_type.upper()]
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    default = {Codec.GZIP: -1, Codec.LZ4: _KAFKAS_FAST_LZ4}.get(codec)
    level = levels.get(codec)
    return TargetCompression(codec, None if level == default else level, largest)


def recompressed(
    batch: memoryview, body: bytes | bytearray | memoryview, target: TargetCompression
) -> memoryview:
    """The batch of this (decompressed) body in the wanted codec; raises MESSAGE_TOO_LARGE."""
    fields = list(HEADER.unpack_from(batch))
    if target.codec == Codec.NONE and HEADER_SIZE + len(body) > target.largest_batch:
        raise _too_large(HEADER_SIZE + len(body), target)
    new = bytearray(HEADER_SIZE) + compress(target.codec, body, target.level)
    if len(new) > target.largest_batch:
        raise _too_large(len(new), target)
    fields[1] = len(new) - LOG_OVERHEAD
    fields[5] = fields[5] & ~CODEC_MASK | target.codec
    HEADER.pack_into(new, 0, *fields)
    view = memoryview(new)
    fields[4] = crc32c(view[CRC_COVERS_FROM:])
    HEADER.pack_into(new, 0, *fields)
    return view


def _too_large(size: int, target: TargetCompression) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the batch has {size} bytes when it is {target.codec.name.lower()} as "
        f"compression.type says, and {target.largest_batch} is the largest allowed",
    )
