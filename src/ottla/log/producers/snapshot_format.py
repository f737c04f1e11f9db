"""Producer states as bytes: Kafka's `.snapshot` file, and one addition that Kafka ignores.

A snapshot's file name is the offset up to which it is true. Version 1: version (2 bytes), CRC32C of
all that follows it (4), count (4), then for each producer 46 bytes: its state and its last batch.
Kafka forgets the other four batches at a restart, so a client that retries more than one batch
across it gets OUT_OF_ORDER_SEQUENCE_NUMBER. Here they follow in a second table that begins with a
tag; Kafka reads as far as its count and does not look further.
"""

from collections.abc import Iterable
from struct import Struct, error

from crc32c import crc32c

from ottla.log.producers.states import SEQUENCE_MASK, ProducedBatch, ProducerStateEntry

SUFFIX = ".snapshot"

_VERSION = 1
_HEAD = Struct(">hIi")
_CRC_COVERS_FROM = 6
_PRODUCER = Struct(">qhiqiqiq")
_TAG = b"OTLA"
_EARLIER_BATCH = Struct(">qiqiq")


class CorruptSnapshot(Exception):  # noqa: N818 (it names a state of a file)
    """A snapshot cannot be read: its CRC, version or length is wrong."""


def encode(producers: Iterable[ProducerStateEntry]) -> bytes:
    """The bytes of a snapshot."""
    rows = []
    earlier = []
    for producer in producers:
        batches = producer.batches
        last = batches[-1] if batches else None
        rows.append(
            _PRODUCER.pack(
                producer.producer_id,
                producer.epoch,
                last.last_sequence if last else -1,
                last.last_offset if last else -1,
                last.last_offset - last.first_offset if last else 0,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.txn_first_offset,
            )
        )
        for batch in list(batches)[:-1]:
            delta = batch.last_offset - batch.first_offset
            earlier.append(
                _EARLIER_BATCH.pack(
                    producer.producer_id,
                    batch.last_sequence,
                    batch.last_offset,
                    delta,
                    batch.timestamp,
                )
            )
    tail = b"".join([*rows, *((_TAG, *earlier) if earlier else ())])
    count = len(rows).to_bytes(4, "big")
    return _HEAD.pack(_VERSION, crc32c(tail, crc32c(count)), len(rows)) + tail


def decode(data: bytes) -> list[ProducerStateEntry]:
    """The producers of a snapshot."""
    try:
        version, crc, count = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise CorruptSnapshot(f"version {version} is not {_VERSION}")
        if crc32c(memoryview(data)[_CRC_COVERS_FROM:]) != crc:
            raise CorruptSnapshot("invalid CRC")
        at = _HEAD.size
        producers: dict[int, ProducerStateEntry] = {}
        last: dict[int, ProducedBatch] = {}
        for _ in range(count):
            producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn = (
                _PRODUCER.unpack_from(data, at)
            )
            at += _PRODUCER.size
            producer = producers[producer_id] = ProducerStateEntry(producer_id)
            producer.epoch = epoch
            producer.coordinator_epoch = coordinator_epoch
            producer.last_timestamp = producer.last_seen = timestamp
            producer.txn_first_offset = txn
            if offset >= 0:
                last[producer_id] = _batch(sequence, offset, delta, timestamp)
        if data[at : at + len(_TAG)] == _TAG:
            at += len(_TAG)
            while at < len(data):
                producer_id, *fields = _EARLIER_BATCH.unpack_from(data, at)
                at += _EARLIER_BATCH.size
                producers[producer_id].batches.append(_batch(*fields))
        for producer_id, batch in last.items():
            producers[producer_id].batches.append(batch)
    except (error, KeyError):
        raise CorruptSnapshot("it is truncated") from None
    return list(producers.values())


def _batch(last_sequence: int, last_offset: int, delta: int, timestamp: int) -> ProducedBatch:
    first = (last_sequence - delta) & SEQUENCE_MASK if last_sequence >= 0 else last_sequence
    return ProducedBatch(first, last_sequence, last_offset - delta, last_offset, timestamp)
