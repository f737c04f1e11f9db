"""Inspecting the records of a producer's batch, where its header is not enough.

Rules kept here:
1. It is done for compacted topics (keys), for compressed batches whose header has wrong timestamps,
   and for topics with another codec (`compression.type`).
2. A long body is not inspected on the loop: LongBodyError has the work for a thread, and the batch
   is appended again with the result.
3. What is done in a thread touches nothing but the batch, which is then its own.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.log.validation.recompression import TargetCompression, recompressed
from ottla.records.compression import LARGEST_BODY, BodyTooLargeError, body_of
from ottla.records.kernel import KERNEL
from ottla.records.layout import Examined
from ottla.records.record import INT64_MAX, INT64_MIN
from ottla.wire.batch import HEADER_SIZE, read_header
from ottla.wire.errors import ErrorCode, KafkaError

SHORT_BATCH: Final = 32 << 10
SHORT_BODY: Final = 128 << 10
"""What is decompressed on the loop, in well under a millisecond."""


class Inspected(NamedTuple):
    """What was seen in a batch."""

    found: Examined
    recompressed: memoryview | None
    """The batch in the codec that was wanted, where it had another one."""
    wanted: TargetCompression | None


class LongBodyError(Exception):
    """A long batch has to be inspected: call `look` with a copy of it in a thread."""

    def __init__(self, look: Callable[[memoryview], Inspected]) -> None:
        super().__init__("a long batch")
        self.look = look


def look_into(
    batch: memoryview,
    wanted: TargetCompression | None,
    earliest: int = INT64_MIN,
    latest: int = INT64_MAX,
    *,
    may_wait: bool,
) -> Inspected:
    """Examine a batch whose CRC is right, and give it another codec where one is wanted.

    Raises INVALID_RECORD if its body is not records, and LongBodyError where that would take
    long and `may_wait` is False.
    """

    size = len(batch)  # a request may have more bytes behind it

    def look_later(copied: memoryview) -> Inspected:
        return look_into(copied[:size], wanted, earliest, latest, may_wait=True)

    header = read_header(batch)
    is_other = wanted is not None and wanted.codec != header.codec
    limit = LARGEST_BODY
    if not may_wait and (header.codec or is_other):
        if len(batch) > SHORT_BATCH:
            raise LongBodyError(look_later)
        limit = SHORT_BODY
    try:
        body = body_of(header.codec, batch[HEADER_SIZE:], limit)
        found = KERNEL.examine_records(
            body, header.record_count, header.base_timestamp, earliest, latest
        )
    except BodyTooLargeError as problem:
        if limit == SHORT_BODY:
            raise LongBodyError(look_later) from None
        raise KafkaError(ErrorCode.INVALID_RECORD, problem.message) from None
    except KafkaError as problem:
        raise KafkaError(ErrorCode.INVALID_RECORD, problem.message) from None
    changed = recompressed(batch, body, wanted) if wanted is not None and is_other else None
    return Inspected(found, changed, wanted)
