"""Handling a full disk: lines in the broker's log, and disk space reserved beforehand.

Rules kept here:
1. Clients get an error for every batch that is refused (KAFKA_STORAGE_ERROR), and may ask a
   thousand times a second. The log has one line for all of them, of all partitions, and the count
   in the last line.
2. It is over when nothing was refused for some seconds and the disk takes a file of some size: the
   clients may have given up, and nobody else would notice.
3. A lack of open files or of memory is met in the same places, passes in the same way, and is
   logged alike; the reason says which it is.
4. There is one line when it begins and one when it ends.
5. A file in the data folder only takes up room. It is given up when the checkpoint of start offsets
   finds none, so that DeleteRecords is answered, and put by again when there is room.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from ottla.broker.context.broker_state import BrokerState
from ottla.log.storage.files import Files
from ottla.log.storage.folder import DataFolder

log = structlog.get_logger()

LOOK_EVERY_SECONDS: Final = 5.0
PROBE: Final = ".ottla-room"
PROBE_BYTES: Final = 256 << 10
RESERVE: Final = ".ottla-reserve"
RESERVE_BYTES: Final = 256 << 10


class FullDisk:
    """What is known of the room on one broker's disk."""

    def __init__(self, folder: DataFolder, files: Files, broker: BrokerState) -> None:
        self._folder = folder
        self._files = files
        self._broker = broker
        self._since: float | None = None
        """When the first was refused; None while there is room."""
        self._refused = 0
        self._refused_at = 0.0

    def refused(self, partition: str, reason: str | None) -> None:
        """Something that a partition needs was refused for want of room."""
        loop = asyncio.get_running_loop()
        self._refused += 1
        self._refused_at = loop.time()
        if self._since is None:
            self._since = self._refused_at
            log.error(
                "disk full; refusing writes",
                partition=partition,
                reason=reason,
                data=str(self._folder.path),
            )
            loop.call_later(LOOK_EVERY_SECONDS, self._look)

    def keep_reserve(self) -> None:
        """Put some room by, if there is some; may wait for the disk."""
        files, path = self._files, str(self._folder.path / RESERVE)
        try:
            if not files.exists(path) or files.stat(path).st_size != RESERVE_BYTES:
                files.write_file(path, bytes(RESERVE_BYTES), sync=False)
        except OSError:
            self.give_up_reserve()

    def give_up_reserve(self) -> bool:
        """Give the room back; False where there was none."""
        try:
            self._files.unlink(str(self._folder.path / RESERVE))
        except OSError:
            return False
        return True

    def _look(self) -> None:
        if self._broker.running:
            looking = asyncio.get_running_loop().run_in_executor(None, self._probe)
            looking.add_done_callback(self._looked)

    def _probe(self) -> None:
        """Raise OSError where a file cannot be written; runs in a thread."""
        files, path = self._files, str(self._folder.path / PROBE)
        try:
            files.write_file(path, bytes(PROBE_BYTES), sync=False)
        finally:
            files.unlink_if_exists(path)
        self.keep_reserve()

    def _looked(self, looking: asyncio.Future[None]) -> None:
        if looking.cancelled() or self._since is None:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        if looking.exception() is not None or now - self._refused_at < LOOK_EVERY_SECONDS:
            loop.call_later(LOOK_EVERY_SECONDS, self._look)
            return
        log.warning(
            "disk space available again; accepting writes",
            refused=self._refused,
            seconds=round(now - self._since, 1),
        )
        self._since, self._refused = None, 0
