"""A file system that fails where a test wants it to.

Every operation of `Files` is counted, and one of them can fail: with an error, by writing only a
part, or by ending the process (after which every other operation fails too). It also knows what no
fsync has covered, so that a test can lose it as a power failure would; it does not wait for a disk.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from ottla.log.files import OPERATIONS, Bytes, Files

P = ParamSpec("P")
R = TypeVar("R")


class Killed(BaseException):
    """The process is dead: nothing catches this, as nothing runs after a SIGKILL."""


class FaultyFiles(Files):
    """Fails the operation number `fail_at`, counted from 0, in the way `fault` says."""

    def __init__(self, fail_at: int = -1, fault: int | str = errno.EIO) -> None:
        super().__init__()
        self.count = 0
        self.fail_at = fail_at
        self.fault = fault
        self.failed: str | None = None
        """The operation that failed."""
        self.done: list[str] = []
        """All operations, in order."""
        self._dead = False
        self._paths: dict[int, str] = {}
        self._synced: dict[str, int] = {}
        write, open_, close = self.pwrite, self.open, self.close
        for name in OPERATIONS:
            setattr(self, name, self._wrap(name, getattr(self, name)))
        self.pwrite = self._wrap("pwrite", self._torn(write))
        self.open = self._wrap("open", self._remember(open_))
        self.close = self._wrap("close", self._forget(close))
        self.fsync = self._wrap("fsync", self._note_sync)
        self.fdatasync = self._wrap("fdatasync", self._note_sync)

    def _wrap(self, name: str, operation: Callable[P, R]) -> Callable[P, R]:
        def counted(*args: P.args, **kwargs: P.kwargs) -> R:
            if self._dead:
                raise Killed
            number = self.count
            self.count += 1
            self.done.append(name)
            if number == self.fail_at and not (self.fault == "short" and name != "pwrite"):
                self.failed = name
                if self.fault == "kill":
                    self._dead = True
                    raise Killed
                if isinstance(self.fault, int):
                    raise OSError(self.fault, os.strerror(self.fault))
            return operation(*args, **kwargs)

        return counted

    def _torn(self, write: Callable[[int, Bytes, int], int]) -> Callable[[int, Bytes, int], int]:
        def torn(fd: int, data: Bytes, position: int) -> int:
            if self.count - 1 == self.fail_at and self.fault == "short":
                return write(fd, memoryview(data)[: len(data) // 2], position)
            return write(fd, data, position)

        return torn

    def _remember(self, open_: Callable[[str, int, int], int]) -> Callable[[str, int, int], int]:
        def remembered(path: str, flags: int, mode: int) -> int:
            fd = open_(path, flags, mode)
            self._paths[fd] = path
            return fd

        return remembered

    def _forget(self, close: Callable[[int], None]) -> Callable[[int], None]:
        def forgotten(fd: int) -> None:
            self._paths.pop(fd, None)
            close(fd)

        return forgotten

    def _note_sync(self, fd: int) -> None:
        path = self._paths.get(fd)
        if path is not None:
            self._synced[path] = os.fstat(fd).st_size

    def synced_size(self, path: Path) -> int:
        """How many bytes of a file an fsync has covered."""
        return self._synced.get(str(path), 0)
