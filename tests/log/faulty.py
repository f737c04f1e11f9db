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

from ottla.log.storage.files import OPERATIONS, Bytes, Files

REAL = {"rename": "replace"}
"""Operations whose name in `os` is another."""

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
        for name in OPERATIONS:
            setattr(self, name, self._wrap(name, self._kept_book_of(name)))

    def _kept_book_of(self, name: str) -> Callable[..., object]:
        """An operation that also notes what it changes, where there is something to note."""
        keeping: dict[str, Callable[..., object]] = {
            "pwrite": self._pwrite,
            "open": self._open,
            "close": self._close,
            "fsync": self._sync,
            "fdatasync": self._sync,
            "ftruncate": self._ftruncate,
            "rename": self._rename,
        }
        real: Callable[..., object] = getattr(os, REAL.get(name, name))
        return keeping.get(name, real)

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

    def _pwrite(self, fd: int, data: Bytes, position: int) -> int:
        if self.count - 1 == self.fail_at and self.fault == "short":
            data = memoryview(data)[: len(data) // 2]
        return os.pwrite(fd, data, position)

    def _open(self, path: str, flags: int, mode: int) -> int:
        fd = os.open(path, flags, mode)
        self._paths[fd] = path
        if flags & os.O_TRUNC:
            self._synced[path] = 0
        return fd

    def _close(self, fd: int) -> None:
        self._paths.pop(fd, None)
        os.close(fd)

    def _sync(self, fd: int) -> None:
        self._synced[self._paths[fd]] = os.fstat(fd).st_size

    def _ftruncate(self, fd: int, size: int) -> None:
        path = self._paths[fd]
        self._synced[path] = min(self._synced.get(path, 0), size)
        os.ftruncate(fd, size)

    def _rename(self, old: str, new: str) -> None:
        os.replace(old, new)
        self._synced[new] = self._synced.pop(old, 0)

    def close_all(self) -> None:
        """What the kernel does for a process that has ended."""
        while self._paths:
            os.close(self._paths.popitem()[0])

    def synced_size(self, path: Path) -> int:
        """How many bytes of a file an fsync has covered."""
        return self._synced.get(str(path), 0)

    def everything_is_synced(self, directory: Path) -> None:
        """What a power failure left is on the disk for certain."""
        for path in directory.iterdir():
            self._synced[str(path)] = path.stat().st_size
