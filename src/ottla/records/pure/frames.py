"""How large a compressed body can become, read from its frame without decompressing it.

Rules kept here, and in the native twin:
1. A body that is not a whole frame of its codec has no size (-1): its magic number, the sizes of
   its blocks and its end are checked. What is inside of a block is not.
2. The size is never too small: the sum of what the blocks state, or of the most they can hold.
3. What follows the end of an lz4 or gzip frame is not looked at.
"""

from struct import Struct, error
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

ZSTD_BLOCK: Final = 128 * 1024
GZIP_BEST: Final = 1032
"""Bytes out of one: what deflate can reach."""
SNAPPY_BEST: Final = 64
XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_SIZE: Final = 16
NO_FRAME: Final = -1
_LITTLE: Final = Struct("<I")
_BIG: Final = Struct(">i")


def largest_body(codec: int, data: "Buffer", at: int = 0) -> int:
    """How large a compressed body can become, by its frame; -1 where it is no whole frame."""
    body = bytes(memoryview(data)[at:])
    try:
        match codec:
            case 1:
                return _gzip(body)
            case 2:
                return _snappy(body)
            case 3:
                return _lz4(body)
            case 4:
                return _zstd(body)
    except (IndexError, error):
        pass
    return NO_FRAME


def _gzip(body: bytes) -> int:
    if len(body) < 18 or body[:3] != b"\x1f\x8b\x08":
        return NO_FRAME
    return len(body) * GZIP_BEST


def _snappy(body: bytes) -> int:
    if len(body) < XERIAL_SIZE or not body.startswith(XERIAL_MAGIC):
        return _stated(body)
    at = XERIAL_SIZE
    total = 0
    while at < len(body):
        (size,) = _BIG.unpack_from(body, at)
        at += 4
        stated = _stated(body[at : at + size])
        if size <= 0 or at + size > len(body) or stated < 0:
            return NO_FRAME
        total += stated
        at += size
    return total


def _stated(block: bytes) -> int:
    """The size that a raw block of snappy states; -1 where it states none that could be true."""
    value = 0
    for place in range(5):
        value |= (block[place] & 0x7F) << 7 * place
        if block[place] < 0x80:
            return value if value <= len(block) * SNAPPY_BEST else NO_FRAME
    return NO_FRAME


def _lz4(body: bytes) -> int:
    flags, kind = body[4], body[5] >> 4 & 7
    if len(body) < 7 or _LITTLE.unpack_from(body)[0] != 0x184D2204 or flags >> 6 != 1 or kind < 4:
        return NO_FRAME
    block = 1 << (8 + 2 * kind)
    at = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    total = 0
    while True:
        (size,) = _LITTLE.unpack_from(body, at)
        at += 4
        if size == 0:
            break
        size &= 0x7FFFFFFF
        total += block
        at += size + (4 if flags & 0x10 else 0)
        if size > block or at > len(body):
            return NO_FRAME
    at += 4 if flags & 0x04 else 0
    return total if at <= len(body) else NO_FRAME


def _zstd(body: bytes) -> int:
    """Frames one after the other, skippable ones among them."""
    at = total = 0
    while True:
        if len(body) - at < 5:
            return NO_FRAME
        (magic,) = _LITTLE.unpack_from(body, at)
        if magic >> 4 == 0x184D2A5:
            at += 8 + int(_LITTLE.unpack_from(body, at + 4)[0])
        elif magic == 0xFD2FB528:
            at, stated = _zstd_frame(body, at)
            if at < 0:
                return NO_FRAME
            total += stated
        else:
            return NO_FRAME
        if at > len(body):
            return NO_FRAME
        if at == len(body):
            return total


def _zstd_frame(body: bytes, at: int) -> tuple[int, int]:
    """The position after a frame and the size that it can become; -1 where it is none."""
    flags = body[at + 4]
    single = bool(flags & 0x20)
    at += 5 if single else 6
    at += (0, 1, 2, 4)[flags & 3]
    at += (1 if single else 0, 2, 4, 8)[flags >> 6]
    total = 0
    while True:
        block = body[at] | body[at + 1] << 8 | body[at + 2] << 16
        at += 3
        size, kind = block >> 3, block >> 1 & 3
        if kind == 3 or size > ZSTD_BLOCK:
            return NO_FRAME, 0
        total += ZSTD_BLOCK if kind == 2 else size
        at += 1 if kind == 1 else size
        if at > len(body):
            return NO_FRAME, 0
        if block & 1:
            return at + (4 if flags & 4 else 0), total
