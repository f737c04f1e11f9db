"""One line in the broker's log when there is no more room, and one when there is room again.

Rules kept here:
1. Clients hear of every batch that is refused (KAFKA_STORAGE_ERROR), and may ask a thousand times a
   second. The log has one line for all of them, of all partitions, and the count in the last line.
2. It is over when nothing was refused for some seconds and the disk takes a file of some size: the
   clients may have given up, and nobody else would notice.
3. A lack of open files or of memory is met in the same places, passes in the same way, and is told
   alike; the reason says which it is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = structlog.get_logger()

LOOK_EVERY_SECONDS: Final = 5.0
PROBE: Final = ".ottla-room"
PROBE_BYTES: Final = 256 << 10


class FullDisk:
    """What is known of the room on one node's disk."""

    def __init__(self, node: Node) -> None:
        self._node = node
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
                "no room: what needs it is refused until there is",
                partition=partition,
                reason=reason,
                data=str(self._node.folder.path),
            )
            loop.call_later(LOOK_EVERY_SECONDS, self._look)

    def _look(self) -> None:
        if self._node.running:
            looking = asyncio.get_running_loop().run_in_executor(None, self._probe)
            looking.add_done_callback(self._looked)

    def _probe(self) -> None:
        """Raise OSError where a file cannot be written; runs in a thread."""
        files, path = self._node.files, str(self._node.folder.path / PROBE)
        try:
            files.write_file(path, bytes(PROBE_BYTES), sync=False)
        finally:
            files.unlink_if_exists(path)

    def _looked(self, looking: asyncio.Future[None]) -> None:
        if looking.cancelled() or self._since is None:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        if looking.exception() is not None or now - self._refused_at < LOOK_EVERY_SECONDS:
            loop.call_later(LOOK_EVERY_SECONDS, self._look)
            return
        log.warning(
            "there is room again", refused=self._refused, seconds=round(now - self._since, 1)
        )
        self._since, self._refused = None, 0
