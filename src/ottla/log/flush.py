"""Flushing logs to disk: what a flush of one covers, and the part of it that may block.

Rules kept here:
1. A flush covers the log up to the end it had when the flush began, and nothing after.
2. run_together() only waits for the disk; it may be called in a thread. Everything it needs was
   captured before, and pinned, so that the logs may be written, read and deleted meanwhile.
3. A failed fsync is reported once, and the data may be lost: it is not retried. It fails only the
   log whose file it was.
4. A folder is synced once, after all that was made or renamed in it.
5. A flush of a log whose folder was renamed writes no more files: another topic may have the path
   now.
6. Many logs are flushed step by step, each step for all of them: the file system then commits its
   journal a few times for all, not several times for each.
"""

import errno
import os
from collections.abc import Sequence
from threading import Lock

from ottla.log.storage.file_cache import OpenFile
from ottla.log.storage.files import CREATE_EMPTY, DISK_IS_FULL, Files


class Flush:
    """One flush of one log, from begin_flush() to end_flush()."""

    __slots__ = (
        "_abandoned",
        "_directories",
        "_files",
        "_replacements",
        "_replacing",
        "_written",
        "done",
        "end_offset",
        "error",
        "may_be_run_again",
        "pinned",
    )

    def __init__(self, files: Files, end_offset: int) -> None:
        self._files = files
        self.end_offset = end_offset
        """The recovery point after this flush; a truncation meanwhile lowers it."""
        self.pinned: list[OpenFile] = []
        self.done = False
        self.error: OSError | None = None
        self.may_be_run_again = False
        """True if no fsync failed: the disk was full, or too many files were open."""
        self._written: list[int] = []
        self._replacements: list[tuple[str, bytes]] = []
        self._directories: dict[str, None] = {}
        self._abandoned = False
        self._replacing = Lock()

    def abandon(self) -> None:
        """The log's folder is about to be renamed: write no more files into it."""
        with self._replacing:
            self._abandoned = True

    def add_log(self, file: OpenFile) -> None:
        """A segment's log file, which stays open until the flush has ended."""
        file.pin()
        self.pinned.append(file)

    def add_written(self, descriptors: list[int]) -> None:
        """Files just written, to be fsynced and closed."""
        self._written += descriptors

    def add_replacement(self, path: str, data: bytes) -> None:
        """A small file to be written whole."""
        self._replacements.append((path, data))
        self.add_directory(os.path.dirname(path))

    def add_directory(self, path: str) -> None:
        """Files were created or renamed in this folder."""
        self._directories[path] = None

    def run(self) -> None:
        """Wait until all of it is on the disk; raises OSError."""
        run_together([self])
        if self.error is not None:
            raise self.error

    def _write_replacements(self) -> None:
        """Where the disk is full nothing is lost: the old file stays."""
        try:
            for path, data in self._replacements:
                with self._replacing:
                    if self._abandoned:
                        return
                    fd = self._files.open(path + ".tmp", CREATE_EMPTY, 0o600)
                self._written.append(fd)
                self._files.write_fully(fd, data, 0)
        except OSError as error:
            self._fails(error, may_be_run_again=error.errno in DISK_IS_FULL)

    def _take_places(self) -> None:
        """Rename the new files, which are on disk, over the old ones."""
        try:
            for path, _ in self._replacements:
                with self._replacing:
                    if self._abandoned:
                        return
                    self._files.rename(path + ".tmp", path)
        except OSError as error:
            self._fails(error, may_be_run_again=error.errno in DISK_IS_FULL)

    def _fails(self, error: OSError, *, may_be_run_again: bool = False) -> None:
        if self.error is None:
            self.error = error
            self.may_be_run_again = may_be_run_again

    def _close_written(self) -> None:
        while self._written:
            try:
                self._files.close(self._written.pop())
            except OSError:
                pass  # fsync has reported it already

    def release(self) -> None:
        """Close and unpin the files."""
        for file in self.pinned:
            file.unpin()
        self.pinned.clear()
        self._close_written()


def run_together(flushes: Sequence[Flush]) -> None:
    """Wait until all of these are on the disk; each knows afterwards whether it is done."""
    try:
        for flush in flushes:
            flush._write_replacements()
        _sync_files([flush for flush in flushes if flush.error is None])
        for flush in flushes:
            if flush.error is None:
                flush._take_places()
        _sync_directories([flush for flush in flushes if flush.error is None])
        for flush in flushes:
            flush.done = flush.error is None
    finally:
        for flush in flushes:
            flush._close_written()


def _sync_files(flushes: Sequence[Flush]) -> None:
    owners = [
        (flush, fd)
        for flush in flushes
        for fd in (*(file.fd for file in flush.pinned), *flush._written)
    ]
    if owners:
        problems = flushes[0]._files.sync_all([fd for _, fd in owners])
        for (flush, _), problem in zip(owners, problems, strict=True):
            if problem is not None:
                flush._fails(problem)


def _sync_directories(flushes: Sequence[Flush]) -> None:
    """Too many open files is what open() says: no fsync has failed."""
    wanted: dict[str, list[Flush]] = {}
    for flush in flushes:
        for path in flush._directories:
            wanted.setdefault(path, []).append(flush)
    if wanted:
        problems = flushes[0]._files.sync_directories(list(wanted))
        for owners, problem in zip(wanted.values(), problems, strict=True):
            if problem is not None:
                again = problem.errno in (errno.EMFILE, errno.ENFILE)
                for flush in owners:
                    flush._fails(problem, may_be_run_again=again)
