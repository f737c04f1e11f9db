"""Reading a partition's own log on this broker, batch by batch."""

import asyncio
import os
from collections.abc import AsyncIterator
from time import monotonic
from typing import Final

from ottla.broker.partition import Partition
from ottla.log.files import Slice
from ottla.wire.batch import BatchHeader, headers
from ottla.wire.errors import ErrorCode, KafkaError

CHUNK_BYTES: Final = 1 << 20
TURN_SECONDS: Final = 0.01
"""How long reading, and what is done with a batch, keep all others waiting: by the clock, since
uvloop's own time stands still within a turn."""


async def batches_of(
    partition: Partition, begin: int = 0, end: int | None = None
) -> AsyncIterator[tuple[BatchHeader, memoryview]]:
    """Every batch from offset `begin` to before `end` (None: the log's end), with its header.

    Gives way to clients now and then.
    """
    offset = max(begin, partition.log.start_offset)
    loop = asyncio.get_running_loop()
    turn_ends = monotonic() + TURN_SECONDS
    while offset < (partition.log.end_offset if end is None else end):
        limit = partition.log.end_offset if end is None else end
        stretch = partition.log.read(offset, CHUNK_BYTES, limit, True)
        if stretch is None:
            return
        try:
            data = await loop.run_in_executor(None, _read, stretch)
        finally:
            stretch.file.unpin()
        before = offset
        for at, header in headers(data):
            if header.last_offset >= offset:
                yield header, data[at : at + header.size]
                offset = header.next_offset
                if monotonic() > turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = monotonic() + TURN_SECONDS
        if offset == before:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{partition} cannot be read at {offset}"
            )


def _read(stretch: Slice) -> memoryview:
    return memoryview(os.pread(stretch.file.fd, stretch.size, stretch.position))
