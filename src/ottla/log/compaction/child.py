"""Compaction as a child process: `python -m ottla.log.compaction`.

Rules kept here:
1. It reads an Order a line and answers with lines (order.py).
2. It reads and writes no faster than its order allows (`log.cleaner.io.max.bytes.per.second`).
3. It stops once its broker has gone, before the next read or write.
"""

import os
import select
import sys
import time
from collections.abc import Callable
from typing import TextIO

from ottla.log.compaction.cleaned_segment import SegmentTooLarge
from ottla.log.compaction.cleaner import compact
from ottla.log.compaction.order import Failed, Order, Reply, reply_to_line
from ottla.log.segments.scan import CorruptLog
from ottla.log.storage.files import Bytes, Files
from ottla.wire.errors import KafkaError

NICENESS = 10


class PacedFiles(Files):
    """Files that are read and written no faster than allowed, until the broker is gone."""

    def __init__(
        self,
        is_wanted: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__()
        self.bytes_per_second = float("inf")
        self._is_wanted = is_wanted
        self._clock = clock
        self._sleep = sleep
        self._free_at = clock()
        pread, pwrite = self.pread, self.pwrite

        def paced_pread(fd: int, size: int, position: int) -> bytes:
            data = pread(fd, size, position)
            self._pace(len(data))
            return data

        def paced_pwrite(fd: int, data: Bytes, position: int) -> int:
            written = pwrite(fd, data, position)
            self._pace(written)
            return written

        self.pread, self.pwrite = paced_pread, paced_pwrite

    def _pace(self, size: int) -> None:
        if not self._is_wanted():
            raise SystemExit(1)
        now = self._clock()
        self._free_at = max(now, self._free_at) + size / self.bytes_per_second
        if self._free_at > now:
            self._sleep(self._free_at - now)


def main(requests: TextIO, replies: TextIO, files: PacedFiles) -> None:
    """Compact one log for each line."""

    def tell(reply: Reply) -> None:
        replies.write(reply_to_line(reply))
        replies.flush()

    for line in requests:
        order = Order.from_line(line)
        files.bytes_per_second = order.bytes_per_second
        try:
            for reply in compact(order, files):
                tell(reply)
        except (CorruptLog, KafkaError, SegmentTooLarge) as problem:
            tell(Failed(str(problem), None))
        except OSError as problem:
            tell(Failed(str(problem), problem.errno))


def _is_wanted() -> bool:
    """False once the broker has gone: it never sends an order before the last one is answered."""
    return not select.select([sys.stdin], [], [], 0)[0]


def run() -> None:
    """Serve the broker that started this process."""
    os.nice(NICENESS)
    try:
        main(sys.stdin, sys.stdout, PacedFiles(_is_wanted))
    except BrokenPipeError:
        os._exit(1)  # the broker has gone, and there is nothing to tidy up
