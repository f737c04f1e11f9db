"""Producers whose batch was rejected with a retriable error: the batches after it fail, too.

A producer with sequences sends several batches before it has heard of the first. If that one is
refused because the disk is full, too few replicas are in sync, or the broker does not lead yet,
those behind it are out of order. Told so, librdkafka takes another epoch for all of its partitions,
and what it had sent to others and not heard of yet is written twice. And a log that does not know
the producer takes any sequence for its first: what was behind would be written before it.

1. What is behind a batch that was refused for the moment gets that batch's error: the client is to
   send all of them again, in order.
2. That ends when the producer is back in order, has another epoch, or gave up: after a while it is
   reported as it is.
3. A limited number is remembered, the latest, and none for longer than that.
"""

from collections.abc import Container
from struct import Struct
from typing import Final, NamedTuple

from ottla.wire.batch import HEADER_SIZE
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.produce import TopicKey

PASSING: Final = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
FORGOTTEN_AFTER_MS: Final = 60_000
REMEMBERED: Final = 10_000
_PRODUCER: Final = Struct(">qhi")
_PRODUCER_AT: Final = 43

Where = tuple[TopicKey, int]
"""A partition, as the producer names it."""


class Sent(NamedTuple):
    """Whose batch it is, and its place among the others."""

    producer_id: int
    epoch: int
    sequence: int


class _Refusal(NamedTuple):
    code: ErrorCode
    epoch: int
    sequence: int
    moment: int

    def is_before(self, sent: Sent, now: int) -> bool:
        """Whether a batch is out of order because of this refusal."""
        return self.epoch == sent.epoch and self.sequence < sent.sequence and not _is_old(self, now)


NOBODY: Final = Sent(-1, -1, -1)


def sent_by(records: memoryview | None) -> Sent:
    """What a batch's header says of its producer."""
    if records is None or len(records) < HEADER_SIZE:
        return NOBODY
    return Sent(*_PRODUCER.unpack_from(records, _PRODUCER_AT))


class RejectedBatches:
    """What the producers of one broker were refused for."""

    def __init__(self) -> None:
        self._first: dict[tuple[Where, int], _Refusal] = {}
        """The first batch of each producer that was refused; who was refused last comes last."""

    def __len__(self) -> int:
        return len(self._first)

    def accepted(self, where: Where, records: memoryview | None) -> None:
        """A batch was appended."""
        self._first.pop((where, sent_by(records).producer_id), None)

    def check(
        self, where: Where, records: memoryview | None, known: Container[int], now: int
    ) -> None:
        """Refuse a batch of a producer that the log does not know where one before it was refused.

        It is out of order, which the log itself sees only of producers that it knows. Raises
        KafkaError; `error_for` has the error for the client.
        """
        sent = sent_by(records)
        refusal = self._first.get((where, sent.producer_id))
        if refusal is not None and sent.producer_id not in known and refusal.is_before(sent, now):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "an earlier batch was rejected"
            )

    def error_for(
        self, where: Where, records: memoryview | None, code: ErrorCode, now: int
    ) -> ErrorCode:
        """What to tell a producer whose batch is refused with this error."""
        sent = sent_by(records)
        if sent.producer_id < 0:
            return code
        key = (where, sent.producer_id)
        refusal = self._first.get(key)
        if code in PASSING:
            if refusal is None or not refusal.is_before(sent, now):
                self._remember(key, _Refusal(code, sent.epoch, sent.sequence, now))
        elif code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and refusal is not None:
            if refusal.is_before(sent, now):
                return refusal.code
            del self._first[key]
        return code

    def _remember(self, key: tuple[Where, int], refusal: _Refusal) -> None:
        first = self._first
        first.pop(key, None)
        first[key] = refusal
        oldest = next(iter(first))
        while len(first) > REMEMBERED or _is_old(first[oldest], refusal.moment):
            del first[oldest]
            oldest = next(iter(first))


def _is_old(refusal: _Refusal, now: int) -> bool:
    return now - refusal.moment >= FORGOTTEN_AFTER_MS
