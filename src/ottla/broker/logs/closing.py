"""Closing the logs of a broker that stops.

Rules kept here:
1. Every log is flushed and closed; one log's failure is not the others'.
2. Many are closed at a time, so that all threads of the flusher have as much as they can take
   together, but no more than there are files that may be open.
3. The names of new logs' folders are brought to the disk once for all of them.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from ottla.broker.logs.log_dir import LogDir
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.scheduling.flusher import THREADS, TOGETHER, Flusher

log = structlog.get_logger()

FEWEST_AT_ONCE: Final = 16
MOST_AT_ONCE: Final = THREADS * TOGETHER
FILES_OF_A_FLUSH: Final = 8
"""Open at once beside the log: indexes, a snapshot, epochs; seldom those of several segments."""


async def close_logs(log_dir: LogDir, partitions: Partitions) -> bool:
    """Flush and close every log; False where one could not be closed."""
    await _sync_new_folders(log_dir, partitions)
    slots = asyncio.Semaphore(closed_at_once(log_dir.cache.limit))

    async def close(partition: Partition) -> bool:
        async with slots:
            return await _close_log(log_dir.flusher, partition)

    return all(await asyncio.gather(*(close(partition) for partition in partitions)))


def closed_at_once(open_logs: int) -> int:
    """How many logs are closed at a time where this many files of logs may be open.

    Those are seven eighths of all that the process may have open, and at a stop nobody else needs
    the rest.
    """
    return max(FEWEST_AT_ONCE, min(MOST_AT_ONCE, open_logs // 7 // FILES_OF_A_FLUSH))


async def _sync_new_folders(log_dir: LogDir, partitions: Partitions) -> None:
    new = [partition.log for partition in partitions if partition.log.directory_is_new]
    if not new:
        return
    sync = log_dir.files.sync_directory
    try:
        await asyncio.get_running_loop().run_in_executor(None, sync, str(log_dir.folder.path))
    except OSError as problem:
        for each in new:
            each.failed(problem)
        return
    for each in new:
        each.directory_is_new = False


async def _close_log(flusher: Flusher, partition: Partition) -> bool:
    its_log = partition.log
    if its_log.offline:
        return False
    flush = None
    try:
        await partition.settled()
        if its_log.needs_several_flushes:
            await partition.flush()
        flush = its_log.begin_close()
        if flush is not None:
            await flusher.flushed(flush)
    except Exception as problem:  # noqa: BLE001 one log's failure is not the others'
        log.error("failed to close log", partition=str(partition), reason=str(problem))
        return False
    finally:
        its_log.end_close(flush)
    return True
