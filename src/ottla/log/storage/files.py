"""The file system calls of the log.

Rules kept here:
1. Every operation is an attribute of `Files`, so a test can replace any one of them (a torn write,
   a failed fsync, a full disk, "the process dies here") without the log knowing.
2. A file that replaces another is written beside it, fsynced, renamed, and its folder fsynced.
"""

import errno
import os
from collections.abc import Callable
from typing import TypeAlias, TypeVar

try:
    from ottla.log.native import syncing
except ImportError:  # There was no compiler at install.
    SYNC_ALL = SYNC_FOLDERS = None
else:
    SYNC_ALL, SYNC_FOLDERS = syncing.sync_all, syncing.sync_folders

Bytes: TypeAlias = bytes | bytearray | memoryview
T = TypeVar("T")

DISK_IS_FULL = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)
"""Errors that say "not now" rather than "this disk is broken": the log stays online."""

# Appended data needs no more than fdatasync: it writes the size too. macOS has only fsync.
FDATASYNC: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
NOWAIT = getattr(os, "RWF_NOWAIT", 0)
READ_WRITE = os.O_RDWR | os.O_CLOEXEC
CREATE = os.O_RDWR | os.O_CLOEXEC | os.O_CREAT
CREATE_EMPTY = os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_TRUNC

OPERATIONS = (
    "open",
    "close",
    "pread",
    "preadv",
    "pwrite",
    "fsync",
    "fdatasync",
    "ftruncate",
    "rename",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
    "listdir",
    "stat",
    "utime",
)


class Files:
    """The operating system's file calls, and the few sequences of them that the log needs."""

    __slots__ = (*OPERATIONS, "on_full")

    open: Callable[[str, int, int], int]
    close: Callable[[int], None]
    pread: Callable[[int, int, int], bytes]
    preadv: Callable[[int, list[bytearray], int, int], int]
    pwrite: Callable[[int, Bytes, int], int]
    fsync: Callable[[int], None]
    fdatasync: Callable[[int], None]
    ftruncate: Callable[[int, int], None]
    rename: Callable[[str, str], None]
    link: Callable[[str, str], None]
    unlink: Callable[[str], None]
    mkdir: Callable[[str], None]
    rmdir: Callable[[str], None]
    listdir: Callable[[str], list[str]]
    stat: Callable[[str], os.stat_result]
    utime: Callable[[str, tuple[float, float]], None]
    on_full: Callable[[str, str | None], None]
    """Called by a log that was refused something that a disk with room would take: who, and why."""

    def __init__(self) -> None:
        self.open = os.open
        self.close = os.close
        self.pread = os.pread
        self.preadv = os.preadv
        self.pwrite = os.pwrite
        self.fsync = os.fsync
        self.fdatasync = FDATASYNC
        self.ftruncate = os.ftruncate
        self.rename = os.replace
        self.link = os.link
        self.unlink = os.unlink
        self.mkdir = _make_private_folder
        self.rmdir = os.rmdir
        self.listdir = os.listdir
        self.stat = os.stat
        self.utime = os.utime
        self.on_full = _ignore_full_disk

    def read_file(self, path: str) -> bytes:
        """All bytes of a (small) file."""
        fd = self.open(path, os.O_RDONLY | os.O_CLOEXEC, 0)
        try:
            parts = []
            at = 0
            while part := self.pread(fd, 1 << 20, at):
                parts.append(part)
                at += len(part)
            return parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            self.close(fd)

    def read_file_from_memory(self, path: str) -> bytes:
        """All bytes of a file that is in the page cache; raises BlockingIOError if it is not."""
        size = self.stat(path).st_size
        buffer = bytearray(size)
        fd = self.open(path, os.O_RDONLY | os.O_CLOEXEC, 0)
        try:
            got = self.read_from_memory(fd, buffer, 0)
        finally:
            self.close(fd)
        if got < size:
            raise BlockingIOError
        return bytes(buffer)

    def read_from_memory(self, fd: int, buffer: bytearray, position: int) -> int:
        """Read what is in the page cache; raises BlockingIOError if nothing of it is."""
        if NOWAIT:
            try:
                return self.preadv(fd, [buffer], position, NOWAIT)
            except BlockingIOError:
                raise
            except OSError:  # a file system without RWF_NOWAIT; a broken disk fails below
                pass
        data = self.pread(fd, len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def write_fully(self, fd: int, data: Bytes, position: int) -> None:
        """Write all of it, or raise."""
        view = memoryview(data)
        while view:
            written = self.pwrite(fd, view, position)
            view = view[written:]
            position += written

    def write_file(self, path: str, data: Bytes, *, sync: bool) -> None:
        """Make a file hold exactly these bytes; not atomic."""
        fd = self.open(path, CREATE_EMPTY, 0o600)
        try:
            self.write_fully(fd, data, 0)
            if sync:
                self.fsync(fd)
        finally:
            self.close(fd)

    def replace_file(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        """Make a file hold exactly these bytes; a crash leaves the old bytes or the new ones."""
        self.write_file(path + ".tmp", data, sync=sync)
        self.rename(path + ".tmp", path)
        if sync:
            self.sync_directory(os.path.dirname(path) or ".")

    def overwrite_file(self, path: str, data: Bytes) -> None:
        """Make a file that is there hold these bytes, in the room that it has; not atomic."""
        fd = self.open(path, READ_WRITE, 0)
        try:
            self.write_fully(fd, data, 0)
            self.ftruncate(fd, len(data))
            self.fsync(fd)
        finally:
            self.close(fd)

    def sync_all(self, descriptors: list[int]) -> list[OSError | None]:
        """Bring the data of files to the disk; what went wrong with each, if something did."""
        if SYNC_ALL is not None and self.fdatasync is FDATASYNC:
            return [_problem(number) for number in SYNC_ALL(descriptors)]
        return [_problem_of(self.fdatasync, fd) for fd in descriptors]

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a folder durable."""
        fd = self.open(path, os.O_RDONLY | os.O_CLOEXEC, 0)
        try:
            self.fsync(fd)
        finally:
            self.close(fd)

    def sync_directories(self, paths: list[str]) -> list[OSError | None]:
        """The same for many folders; what went wrong with each, if something did."""
        if SYNC_FOLDERS is not None and self.fsync is os.fsync and self.open is os.open:
            return [_problem(number) for number in SYNC_FOLDERS(paths)]
        return [_problem_of(self.sync_directory, path) for path in paths]

    def exists(self, path: str) -> bool:
        """True if there is such a file or folder."""
        try:
            self.stat(path)
        except FileNotFoundError:
            return False
        return True

    def set_aside(self, path: str, new_path: str) -> str | None:
        """Rename a file that is to be removed later; the new name, or None if none is left.

        A full disk may have no space for a longer name: then the file goes at once.
        """
        try:
            self.rename(path, new_path)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in DISK_IS_FULL:
                raise
            self.unlink_if_exists(path)
            return None
        return new_path

    def unlink_if_exists(self, path: str) -> None:
        """Remove a file that may be gone already."""
        try:
            self.unlink(path)
        except FileNotFoundError:
            pass


def _problem(number: int) -> OSError | None:
    return OSError(number, os.strerror(number)) if number else None


def _problem_of(operation: Callable[[T], None], argument: T) -> OSError | None:
    try:
        operation(argument)
    except OSError as problem:
        return problem
    return None


def _make_private_folder(path: str) -> None:
    os.mkdir(path, 0o700)


def _ignore_full_disk(_: str, __: str | None) -> None:
    """The default of `on_full`."""
