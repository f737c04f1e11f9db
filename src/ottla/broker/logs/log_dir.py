"""The data directory as this room's modules share it: its files, their cache, their flushes."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import NamedTuple

from ottla.broker.context.broker_state import BrokerState
from ottla.broker.logs.full_disk import FullDisk
from ottla.broker.scheduling.flusher import Flusher
from ottla.log.storage.file_cache import FileCache
from ottla.log.storage.files import Files
from ottla.log.storage.folder import DataFolder


class LogDir(NamedTuple):
    """One data directory and what is needed to work in it."""

    folder: DataFolder
    files: Files
    cache: FileCache
    flusher: Flusher
    full_disk: FullDisk

    @classmethod
    def of(cls, path: Path, broker: BrokerState) -> LogDir:
        """That of a path; nothing is opened yet."""
        files = Files()
        folder = DataFolder(path, files)
        full_disk = FullDisk(folder, files, broker)
        files.on_full = full_disk.refused
        return cls(folder, files, FileCache(_open_files_limit(), files), Flusher(), full_disk)


def _open_files_limit() -> int:
    """Most of what the process may have open is for logs, as long as clients do not need it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(64, min(soft, 1 << 20) * 7 // 8)
