"""The marker: what a sink has decided, as records in one compacted topic (pure).

PREPARED(batch) is the commit point: it lists the transactions that hold a batch's rows, and from
then on they are to be committed, by any later run. DONE(batch) says that they all are.

Rules kept here:
1. A record's key is its sink, so compaction keeps the last one of each.
2. Every record is written in a transaction of the sink's fence id, and counts only when the log
   has the commit marker of that transaction. It is judged by its own producer's marker, never by
   the last stable offset: another sink's open transaction would hide ours.
3. A record without any marker after it is undecided: it may still be committed, by the run that
   wrote it, or be aborted, by the run that takes the fence id.
4. PREPARED tells what was counted of the rows too, so that the writer of DONE can write the audit
   event. Where it would be too large by that, it is left out.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from ottla.client.batch_sender import Span
from ottla.client.transactional import TransactionKey
from ottla.records import decode_batch
from ottla.records.control import MarkerType, decode_marker
from ottla.wire.batch import BatchHeader
from pyspark_ottla.sink.counting import Counted

MARKER_TOPIC = "__ottla_sink_markers"
MARKER_PARTITION = 0
MARKER_BYTES = 4 << 20
"""The largest record: some ten thousand transactions, compressed."""
MARKER_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(MARKER_BYTES + (1 << 16)),
    "max.message.bytes": str(MARKER_BYTES),
    "min.cleanable.dirty.ratio": "0.1",
}
"""Small segments: the whole topic is read when a query starts."""
MOST_SPANS = 8
"""Of a transaction's places in the log one is enough for a proof; a few are kept."""


class WrittenRange(msgspec.Struct, frozen=True, array_like=True):
    """Where a transaction's records in one partition lie."""

    topic: str
    partition: int
    first: int
    last: int
    count: int


class Written(msgspec.Struct, frozen=True, array_like=True):
    """What one task wrote: the transaction, and what identifies the rows in it."""

    partition: int
    """Spark's number of the task, not a topic's partition."""
    transactional_id: str
    producer_id: int
    epoch: int
    rows: int
    digest: int
    places: list[WrittenRange]
    counted: Counted | None = None
    """Its audit event, written once it is committed."""

    @property
    def key(self) -> TransactionKey:
        """Who may end the transaction."""
        return TransactionKey(self.transactional_id, self.producer_id, self.epoch)


class Prepared(msgspec.Struct, frozen=True, tag="PREPARED"):
    """The transactions of a batch are to be committed."""

    batch: int
    run: str
    end_txn_version: int
    written: list[Written]
    query: str = ""
    """Whose batch it is: Spark's id of the query, which lasts as long as its checkpoint."""


class Done(msgspec.Struct, frozen=True, tag="DONE"):
    """The transactions of a batch are committed."""

    batch: int
    run: str
    query: str = ""
    rows: int | None = None
    """How many rows the batch had."""


Decision = Prepared | Done
_DECODER: msgspec.json.Decoder[Decision] = msgspec.json.Decoder(Decision)


class SinkMarker(NamedTuple):
    """What the marker topic says of a sink."""

    decision: Decision | None = None
    """The last one that was committed."""
    producer: tuple[int, int] = (-1, -1)
    """Producer id and epoch with which it was written."""
    is_undecided: bool = False
    """True where a later record is neither committed nor aborted."""


def encode(decision: Decision) -> bytes:
    """The value of a record."""
    value = msgspec.json.encode(decision)
    if isinstance(decision, Prepared) and len(value) > MARKER_BYTES:
        uncounted = [msgspec.structs.replace(item, counted=None) for item in decision.written]
        return msgspec.json.encode(msgspec.structs.replace(decision, written=uncounted))
    return value


def decode(value: bytes) -> Decision:
    """The decision in a record's value."""
    return _DECODER.decode(value)


def places(spans: Iterable[tuple[tuple[str, int], Span]]) -> list[WrittenRange]:
    """A transaction's places in the log: some of them, if there are many."""
    kept = sorted(spans)[:MOST_SPANS]
    return [WrittenRange(*partition, *span) for partition, span in kept]


class MarkerReading:
    """Takes the batches of the marker topic in order, control batches too."""

    def __init__(self, sink: str) -> None:
        self._key = sink.encode()
        self._open: dict[int, tuple[int, Decision]] = {}
        """Epoch and last decision of the open transaction of each producer."""
        self._last: tuple[Decision, tuple[int, int]] | None = None

    def add(self, header: BatchHeader, batch: memoryview) -> None:
        """Take one whole batch."""
        producer = header.producer_id
        if header.is_control:
            ended = self._open.pop(producer, None)
            # Compaction may leave a marker's batch without its record.
            if ended is None or not header.record_count:
                return
            if decode_marker(batch).type is MarkerType.COMMIT:
                self._last = ended[1], (producer, ended[0])
        elif header.is_transactional:
            for record in decode_batch(batch):
                if record.key == self._key and record.value is not None:
                    self._open[producer] = header.producer_epoch, decode(record.value)

    def result(self) -> SinkMarker:
        """What all batches so far say."""
        if self._last is None:
            return SinkMarker(is_undecided=bool(self._open))
        return SinkMarker(*self._last, is_undecided=bool(self._open))
