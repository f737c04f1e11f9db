"""Which batches a read_committed reader may see (pure).

A fetch's reply lists the aborted transactions that reach into its batches: producer id and first
offset of each. From that offset on, that producer's transactional batches are not for readers,
until its abort marker. Markers themselves, and other control batches, are for nobody.
"""

from collections.abc import Callable, Iterable, Iterator

from ottla.records.control import MarkerType, decode_marker
from ottla.wire.batch import BatchHeader, headers


def visible_batches(
    records: memoryview,
    aborted: Iterable[tuple[int, int]] = (),
    on_aborted: Callable[[BatchHeader], None] | None = None,
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Header and bytes of each whole batch that holds records for a reader.

    `on_aborted` is called for each batch of an aborted transaction.
    """
    to_come = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
    aborting: set[int] = set()
    for at, header in headers(records):
        while to_come and to_come[-1][1] <= header.last_offset:
            aborting.add(to_come.pop()[0])
        batch = records[at : at + header.size]
        if header.is_control:
            # Compaction may leave a marker's batch without its record.
            if header.producer_id in aborting and (
                not header.record_count or decode_marker(batch).type is MarkerType.ABORT
            ):
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield header, batch
        elif on_aborted is not None:
            on_aborted(header)


def next_offset(records: memoryview) -> int | None:
    """The offset after the last whole batch; None where there is none."""
    last = None
    for _, header in headers(records):
        last = header
    return None if last is None else last.next_offset
