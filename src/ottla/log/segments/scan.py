"""Reading a segment's file batch by batch: headers only, or with every CRC checked.

Rules kept here:
1. Everything is checked before it is used: a length must fit the file, offsets must grow.
2. A scan stops at the first batch that is incomplete or invalid, and says why. Whether that is a
   torn tail or a corrupt log is for the caller to decide; a dump may continue after it.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from ottla.log.storage.files import Files
from ottla.wire.batch import (
    CRC_COVERS_FROM,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    SMALLEST_LENGTH,
    BatchHeader,
)

CHUNK = 1 << 20
NEARBY = 4096
"""How much to read where the batch that is looked for is expected within one index interval."""

BASE_LENGTH_DELTA = Struct(">qi11xi")
"""Base offset, length and last offset delta: what a walk along batches needs of a header."""


class CorruptLog(Exception):  # noqa: N818 (it names a state of the log)
    """Bytes that were known to be on disk are damaged or gone. The partition must go offline."""


class Scanned(NamedTuple):
    """A batch found in a file."""

    position: int
    header: BatchHeader
    batch: memoryview
    """The whole batch, good until the next one is asked for; empty in a scan of headers."""


class Scan:
    """One pass over a file. After it, `position` is where the good bytes end."""

    def __init__(
        self,
        files: Files,
        fd: int,
        position: int,
        end: int,
        next_offset: int,
        pread: Callable[[int, int, int], bytes] | None = None,
    ) -> None:
        self._pread = pread or files.pread
        self._fd = fd
        self._end = end
        self.position = position
        self.next_offset = next_offset
        """The lowest base offset that the next batch may have."""
        self.problem: str | None = None
        """Why the scan stopped before the end of the file."""
        self.damaged: Scanned | None = None
        """The batch with the wrong CRC that it stopped at."""

    def batches(self) -> Iterator[Scanned]:
        """Every complete batch with a valid CRC, up to the first that is not."""
        chunk = memoryview(b"")
        start = self.position
        while self.position < self._end:
            at = self.position - start
            if len(chunk) - at < HEADER_SIZE:
                start, at, chunk = self.position, 0, self._read(self.position, CHUNK)
            header = self._header(chunk[at : at + HEADER_SIZE])
            if header is None:
                return
            size = header.length + LOG_OVERHEAD
            if len(chunk) - at < size:
                start, at, chunk = self.position, 0, self._read(self.position, max(size, CHUNK))
                if len(chunk) < size:
                    self.problem = "the file was truncated"
                    return
            batch = chunk[at : at + size]
            if crc32c(batch[CRC_COVERS_FROM:]) != header.crc:
                self.problem = "invalid CRC"
                self.damaged = Scanned(self.position, header, batch)
                return
            yield Scanned(self.position, header, batch)
            self.position += size
            self.next_offset = header.base_offset + header.last_offset_delta + 1

    def pass_over(self) -> bool:
        """Continue after the damaged batch; False if its end is not known."""
        damaged, self.damaged, self.problem = self.damaged, None, None
        if damaged is None:
            return False
        self.position += damaged.header.length + LOG_OVERHEAD
        return True

    def headers(self) -> Iterator[Scanned]:
        """Every batch whose header can be right; records are not read."""
        nothing = memoryview(b"")
        chunk = nothing
        start = self.position
        while self.position < self._end:
            at = self.position - start
            if not 0 <= at <= len(chunk) - HEADER_SIZE:
                start, at, chunk = self.position, 0, self._read(self.position, NEARBY)
            header = self._header(chunk[at : at + HEADER_SIZE])
            if header is None:
                return
            yield Scanned(self.position, header, nothing)
            self.position += header.length + LOG_OVERHEAD
            self.next_offset = header.base_offset + header.last_offset_delta + 1

    def read(self, found: Scanned) -> memoryview:
        """The whole batch of a header found by headers()."""
        return self._read(found.position, found.header.length + LOG_OVERHEAD)

    def _read(self, position: int, size: int) -> memoryview:
        return memoryview(self._pread(self._fd, min(size, self._end - position), position))

    def _header(self, view: memoryview) -> BatchHeader | None:
        if len(view) < HEADER_SIZE:
            self.problem = "incomplete batch header"
            return None
        header = BatchHeader._make(HEADER.unpack(view))
        if header.magic != 2:
            self.problem = f"magic {header.magic} is not 2"
        elif header.length < SMALLEST_LENGTH:
            self.problem = f"a batch length of {header.length} is too small"
        elif self.position + header.length + LOG_OVERHEAD > self._end:
            self.problem = "incomplete batch"
        elif header.base_offset < self.next_offset or header.last_offset_delta < 0:
            self.problem = f"offset {header.base_offset} follows offset {self.next_offset - 1}"
        else:
            return header
        return None
