"""Recovering a log where a full disk refuses what the recovery process writes.

Rules kept here:
1. Nothing is written: indexes, epochs and producers stay in memory until a flush finds room. So the
   log can be read, and deleted, while the disk is full.
2. It runs in a thread, which slows the loop down; so it is done only then.
3. The thread is waited for, also where its log is no longer needed: after `leave`, or after the
   waiting was cancelled, nobody works on the folder.
"""

import asyncio
import errno
from collections.abc import Callable, Collection
from copy import copy
from typing import Final

from ottla.log.log import Log
from ottla.log.recovery.recovery import Recovered
from ottla.log.storage.file_cache import FileCache
from ottla.log.storage.files import Files

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_OPEN_FILES: Final = 64

Recover = Callable[[Files, FileCache], tuple[Log, Recovered]]


class MemoryRecovery:
    """One log at a time."""

    def __init__(self) -> None:
        self._directory: str | None = None
        self._thread: asyncio.Future[tuple[Log, Recovered]] | None = None

    async def recover(
        self, directory: str, work: Recover, files: Files, cache: FileCache
    ) -> tuple[Log, Recovered]:
        """Run a recovery in a thread; its log then uses this cache. Raises what the work does."""
        own = copy(files)
        own.on_full = lambda *_: None  # the loop's, and this is a thread
        loop = asyncio.get_running_loop()
        self._directory = directory
        self._thread = loop.run_in_executor(None, work, own, FileCache(_OPEN_FILES, own))
        try:
            log, found = await asyncio.shield(self._thread)
        except asyncio.CancelledError:
            await asyncio.wait((self._thread,))
            if not self._thread.exception():
                self._thread.result()[0].fail(
                    OSError(errno.ECANCELED, "the broker is shutting down")
                )
            raise
        finally:
            self._directory = self._thread = None
        own.on_full = files.on_full
        log.move_to(cache)
        return log, found

    async def leave(self, directories: Collection[str]) -> None:
        """When this returns nobody works on any of these logs."""
        if self._thread is not None and self._directory in directories:
            await asyncio.wait((self._thread,))
