"""A segment's indexes rebuilt from its batches, where those on disk do not match the log.

Rules kept here:
1. The result is what appending and sealing would have written: an entry in each index at a fixed
   interval of bytes, and at the end the largest timestamp.
2. Where the log itself is damaged the indexes end; a read there fails.
"""

from ottla.log.segments.offset_index import OffsetIndex
from ottla.log.segments.scan import Scan
from ottla.log.segments.time_index import TimeIndex

NOTED_EVERY = 4096
"""How many bytes lie between two entries: the default of `index.interval.bytes`."""


def make_indexes(scan: Scan, base_offset: int) -> tuple[OffsetIndex, TimeIndex]:
    """The indexes of the batches of a scan that begins where the segment does."""
    index, time_index = OffsetIndex(), TimeIndex()
    largest, largest_at, noted_at = -1, 0, 0
    for batch in scan.headers():
        relative = batch.header.last_offset - base_offset
        if batch.header.max_timestamp > largest:
            largest, largest_at = batch.header.max_timestamp, relative
        if batch.position - noted_at > NOTED_EVERY:
            index.add(relative, batch.position)
            time_index.add(largest, largest_at)
            noted_at = batch.position
    time_index.add(largest, largest_at)
    return index, time_index
