"""Keyed batches, passes of compaction, and what readers of a compacted log see, each in a line."""

from collections.abc import Iterable

from ottla.log.compaction.cleaner import compact
from ottla.log.compaction.order import Cleaned, Finished
from ottla.log.compaction.plan import plan
from ottla.log.log import Log
from ottla.log.storage.files import Files
from ottla.records import Codec, Record, decode_batch, encode_batch
from ottla.records.control import MarkerType, decode_marker
from ottla.wire.batch import BatchHeader, headers
from tests.log.making import NOW, flush, read_all

MEMORY = 1 << 20


def keyed(
    *pairs: tuple[str, str | None],
    timestamp: int = NOW,
    codec: Codec = Codec.NONE,
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> memoryview:
    """A producer's batch of keys and values."""
    records = [
        Record(at, timestamp + at, key.encode(), None if value is None else value.encode())
        for at, (key, value) in enumerate(pairs)
    ]
    data = encode_batch(
        records,
        codec=codec,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return memoryview(bytearray(data))


def compacted(
    log: Log,
    first_dirty: int | None = None,
    *,
    now: int = NOW,
    memory: int = MEMORY,
    files: Files | None = None,
) -> Finished:
    """One pass over all that may be compacted, in this process."""
    flush(log)
    planned = plan(log, first_dirty, now)
    assert planned is not None
    order = planned.order(now, memory=memory, bytes_per_second=float("inf"))
    for reply in compact(order, files or log.files):
        if isinstance(reply, Finished):
            return reply
        assert isinstance(reply, Cleaned)
        planned.carry_out(reply, now)
    raise AssertionError("a pass without an end")


def batches(log: Log, start: int | None = None) -> Iterable[tuple[BatchHeader, memoryview]]:
    """Every batch of a log."""
    data = memoryview(read_all(log, start))
    for at, header in headers(data):
        yield header, data[at : at + header.size]


def records(log: Log) -> list[Record]:
    """Every record of a log; markers are none."""
    return [
        record
        for header, batch in batches(log)
        if not header.is_control
        for record in decode_batch(batch)
    ]


def offsets(log: Log) -> list[int]:
    """The offsets of all records."""
    return [record.offset for record in records(log)]


def committed(log: Log) -> list[Record]:
    """What a read_committed consumer gets: it drops what the broker lists as aborted."""
    limit = log.last_stable_offset
    aborted = sorted(
        log.aborted_transactions(log.start_offset, limit), key=lambda each: each[1], reverse=True
    )
    now_aborted: set[int] = set()
    found: list[Record] = []
    for header, batch in batches(log):
        if header.base_offset >= limit:
            break
        while aborted and aborted[-1][1] <= header.last_offset:
            now_aborted.add(aborted.pop()[0])
        if header.is_control:
            if header.record_count and decode_marker(batch).type == MarkerType.ABORT:
                now_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in now_aborted):
            found += decode_batch(batch)
    return found


def state(found: Iterable[Record]) -> dict[bytes | None, bytes]:
    """The table that a log of changes makes."""
    table: dict[bytes | None, bytes] = {}
    for record in found:
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table
