"""Bringing a log to the disk: what a flush covers, and the part of it that may block.

Rules kept here:
1. A flush covers the log up to the end it had when the flush began, and nothing after.
2. run() only waits for the disk; it may be called in a thread. Everything it needs was captured
   before, and pinned, so that the log may go on being written, read and deleted meanwhile.
3. A failed fsync says that data may be lost and never says so again: it is not retried.
4. A folder is synced once, after all that was made or renamed in it.
"""

import errno
import os

from ottla.log.files import DISK_IS_FULL, Files, OpenFile


class Flush:
    """One flush of one log, from begin_flush() to end_flush()."""

    __slots__ = (
        "_directories",
        "_files",
        "_replacements",
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
        """True where no fsync failed: the disk was full, or too many files were open."""
        self._written: list[int] = []
        self._replacements: list[tuple[str, bytes]] = []
        self._directories: dict[str, None] = {}

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
        files = self._files
        try:
            for file in self.pinned:
                files.fdatasync(file.fd)
            for fd in self._written:
                files.fdatasync(fd)
            self._replace()
            self._sync_directories()
            self.done = True
        except OSError as error:
            self.error = error
            raise
        finally:
            self._close_written()

    def _replace(self) -> None:
        """Nothing is lost where a full disk does not take a new file: the old one still stands."""
        try:
            for path, data in self._replacements:
                self._files.write_file(path + ".tmp", data, sync=True)
                self._files.rename(path + ".tmp", path)
        except OSError as error:
            self.may_be_run_again = error.errno in DISK_IS_FULL
            raise

    def _sync_directories(self) -> None:
        """Too many open files is what open() says: no fsync has failed."""
        try:
            for path in self._directories:
                self._files.sync_directory(path)
        except OSError as error:
            self.may_be_run_again = error.errno in (errno.EMFILE, errno.ENFILE)
            raise

    def _close_written(self) -> None:
        while self._written:
            try:
                self._files.close(self._written.pop())
            except OSError:
                pass  # fsync has said already what there is to say

    def release(self) -> None:
        """Let go of the files."""
        for file in self.pinned:
            file.unpin()
        self.pinned.clear()
        self._close_written()
