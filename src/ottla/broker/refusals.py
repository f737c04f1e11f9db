"""Producers whose batch was refused for the moment, and what those behind it are told.

A producer with sequences sends several batches before it has heard of the first. If that one is
refused because the disk is full, or too few replicas are in sync, those behind it are out of order.
Told so, librdkafka takes another epoch for all of its partitions, and what it had sent to others
and not heard of yet is written twice. Apache Kafka goes offline with the first failure, so that
there all get the same answer; here it stays, and so:

1. What is out of order behind a batch that was refused for the moment gets that batch's error: the
   client is to send all of them again, in order.
2. That ends when the producer is back in order, or gave up: after a while it is told as it is.
"""

from struct import Struct
from typing import Final

from ottla.wire.batch import HEADER_SIZE
from ottla.wire.errors import ErrorCode

PASSING: Final = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS)
FORGOTTEN_AFTER_MS: Final = 60_000
NO_PRODUCER: Final = -1
_PRODUCER_ID: Final = Struct(">q")
_PRODUCER_ID_AT: Final = 43


def producer_of(records: memoryview | None) -> int:
    """The producer id in a batch's header; -1 where there is none."""
    if records is None or len(records) < HEADER_SIZE:
        return NO_PRODUCER
    producer_id: int = _PRODUCER_ID.unpack_from(records, _PRODUCER_ID_AT)[0]
    return producer_id


class Refusals:
    """What the producers of one partition were refused for."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[int, tuple[ErrorCode, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._last)

    def accepted(self, producer_id: int) -> None:
        """A batch of this producer was appended."""
        self._last.pop(producer_id, None)

    def told(self, producer_id: int, code: ErrorCode, now: int) -> ErrorCode:
        """What to tell a producer whose batch is refused with this error."""
        if producer_id < 0:
            return code
        if code in PASSING:
            self._last[producer_id] = (code, now)
        elif code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and producer_id in self._last:
            refusal, moment = self._last[producer_id]
            if now - moment < FORGOTTEN_AFTER_MS:
                return refusal
            del self._last[producer_id]
        return code
