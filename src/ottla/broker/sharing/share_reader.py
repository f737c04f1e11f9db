"""The batches of a log that a share fetch looks at: headers are read, records stay in the file.

Rules kept here:
1. Only whole batches are used, and no more than a fetch can acquire.
2. Nothing waits for the disk: ColdReadError says what a thread has to read first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.broker.replicas.partition import Partition
from ottla.log.storage.file_cache import Slice
from ottla.log.storage.files import NOWAIT
from ottla.log.storage.page_cache import ColdReadError
from ottla.share.aborted import BatchHead, aborted_batches
from ottla.share.states import Acquired, LogBatch
from ottla.wire.batch import HEADER_SIZE, SMALLEST_LENGTH, BatchHeader, read_header

_CHUNK: Final = 4096
_WARM: Final = 1 << 20


class ShareRead(NamedTuple):
    """What was read for a fetch. Its file is pinned until `let_go`, or until the reply is sent."""

    offset: int
    stretch: Slice
    batches: list[LogBatch]
    positions: list[int]
    """Where each batch begins in the file, and where the last one ends."""
    aborted: list[LogBatch]

    @property
    def size(self) -> int:
        """Bytes of the batches."""
        return self.positions[-1] - self.positions[0]

    def let_go(self) -> None:
        """Nothing of it is sent."""
        self.stretch.file.unpin()

    def part_of(self, acquired: list[Acquired]) -> Slice:
        """The stretch of the batches that have acquired records."""
        first, last = acquired[0].first, acquired[-1].last
        wanted = [
            index
            for index, batch in enumerate(self.batches)
            if batch.last >= first and batch.base <= last
        ]
        start, end = self.positions[wanted[0]], self.positions[wanted[-1] + 1]
        return Slice(self.stretch.file, start, end - start)


def read_batches(
    partition: Partition,
    offset: int,
    *,
    max_bytes: int,
    max_records: int,
    committed: bool,
    whole_first: bool,
    may_wait: bool = False,
) -> ShareRead | None:
    """The batches from an offset on; None if there are none. Raises KafkaError, ColdReadError."""
    log = partition.log
    limit = partition.readable_to(committed)
    stretch = log.read(offset, max_bytes, limit, whole_first, may_wait=may_wait)
    if stretch is None:
        return None
    try:
        batches: list[LogBatch] = []
        heads: list[BatchHead] = []
        positions = [stretch.position]
        for header in _headers(stretch, may_wait):
            heads.append(
                BatchHead(
                    header.base_offset,
                    header.last_offset,
                    header.producer_id,
                    header.is_transactional,
                    header.is_control,
                )
            )
            batches.append(LogBatch(header.base_offset, header.last_offset))
            positions.append(positions[-1] + header.size)
            if header.last_offset - offset + 1 >= max_records:
                break
        if not batches:
            stretch.file.unpin()
            return None
        gone: list[LogBatch] = []
        if committed:
            used = Slice(stretch.file, positions[0], positions[-1] - positions[0])
            gone = list(aborted_batches(heads, log.aborted_in(offset, used, limit)))
    except BaseException:
        stretch.file.unpin()
        raise
    return ShareRead(offset, stretch, batches, positions, gone)


def _headers(stretch: Slice, may_wait: bool) -> Iterator[BatchHeader]:
    """The headers of the whole batches of a stretch."""
    at, end = stretch.position, stretch.position + stretch.size
    chunk, chunk_at = memoryview(b""), at
    while at + HEADER_SIZE <= end:
        if at + HEADER_SIZE > chunk_at + len(chunk):
            chunk, chunk_at = _read(stretch, at, min(_CHUNK, end - at), may_wait), at
            if len(chunk) < HEADER_SIZE:
                return
        header = read_header(chunk, at - chunk_at)
        if header.length < SMALLEST_LENGTH or at + header.size > end:
            return
        yield header
        at += header.size


def _read(stretch: Slice, at: int, size: int, may_wait: bool) -> memoryview:
    fd = stretch.file.fd
    if may_wait or not NOWAIT:
        return memoryview(os.pread(fd, size, at))
    buffer = bytearray(size)
    try:
        count = os.preadv(fd, [buffer], at, NOWAIT)
    except BlockingIOError:
        left = stretch.position + stretch.size - at
        raise ColdReadError(Slice(stretch.file, at, min(_WARM, left))) from None
    except OSError:  # a file system that cannot tell
        return memoryview(os.pread(fd, size, at))
    if count < min(size, HEADER_SIZE):
        left = stretch.position + stretch.size - at
        raise ColdReadError(Slice(stretch.file, at, min(_WARM, left)))
    return memoryview(buffer)[:count]
