"""Reading a partition's own log on this broker, batch by batch."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Final

from ottla.broker.replicas.partition import Partition
from ottla.broker.scheduling.turns import Turns
from ottla.log.storage.file_cache import Slice
from ottla.wire.batch import BatchHeader, headers
from ottla.wire.errors import ErrorCode, KafkaError

CHUNK_BYTES: Final = 1 << 20


async def batches_of(
    partition: Partition, begin: int = 0, end: int | None = None
) -> AsyncIterator[tuple[BatchHeader, memoryview]]:
    """Every batch from offset `begin` to before `end` (None: the log's end), with its header.

    Gives way to clients now and then.
    """
    offset = max(begin, partition.log.start_offset)
    loop = asyncio.get_running_loop()
    turns = Turns()
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
                await turns.give_way()
        if offset == before:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{partition} cannot be read at {offset}"
            )


def _read(stretch: Slice) -> memoryview:
    return memoryview(os.pread(stretch.file.fd, stretch.size, stretch.position))
