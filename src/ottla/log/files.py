"""The only place of the log that touches the file system.

Rules kept here:
1. Every operation is an attribute of `Files`, so a test can replace any one of them (a torn write,
   a failed fsync, a full disk, "the process dies here") without the log knowing.
2. Data files are reached through `OpenFile`: it may be closed behind its owner's back when too many
   files are open, and is reopened on use.
3. A pinned file stays open until it is unpinned, even when it is evicted, retired or unlinked:
   a reader in the middle of sendfile is not disturbed.
4. A file that replaces another is written beside it, fsynced, renamed, and its folder fsynced.
"""

import errno
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypeVar

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
"""Errors that say "not now" rather than "this disk is broken": the log lives on."""

# Appended data needs no more than fdatasync: it writes the size too. macOS has only fsync.
FDATASYNC: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
NOWAIT = getattr(os, "RWF_NOWAIT", 0)
READ_AT_ONCE = 128 << 10
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
        self.on_full = _nobody_cares

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
        """All bytes of a file that is in the page cache; raises BlockingIOError where it is not."""
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
        """Read what is in the page cache; raises BlockingIOError where nothing of it is."""
        if NOWAIT:
            try:
                return self.preadv(fd, [buffer], position, NOWAIT)
            except BlockingIOError:
                raise
            except OSError:  # a file system that cannot tell; a broken disk says so below
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
        """True where there is such a file or folder."""
        try:
            self.stat(path)
        except FileNotFoundError:
            return False
        return True

    def set_aside(self, path: str, new_path: str) -> str | None:
        """Rename a file that is to be removed later; the new name, or None where none is left.

        A full disk may have no room for a longer name: then the file goes at once.
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


def _nobody_cares(_: str, __: str | None) -> None:
    """The default of `on_full`."""


class OpenFile:
    """A data file that is opened when it is used and may be closed when it is not."""

    __slots__ = ("_cache", "fd", "on_close", "path", "pins", "retired", "used")

    def __init__(self, cache: "FileCache", path: str) -> None:
        self.path = path
        self.fd = -1
        """The descriptor, or -1 while closed. Who needs it to last calls pin()."""
        self.pins = 0
        self.used = False
        self.retired = False
        self.on_close: Callable[[], None] | None = None
        """Called when the file is closed: its owner drops what it keeps in memory for it."""
        self._cache = cache

    def descriptor(self) -> int:
        """An open descriptor, good until control returns to the event loop."""
        self.used = True
        return self.fd if self.fd >= 0 else self._cache.reopen(self)

    def pin(self) -> int:
        """Keep the file open until unpin() is called as many times."""
        fd = self.descriptor()
        self.pins += 1
        return fd

    def unpin(self) -> None:
        """Undo one pin()."""
        self.pins -= 1
        if self.retired and self.pins == 0:
            self._end()

    def retire(self) -> None:
        """Its owner is done with it: close it now, or when its last reader is."""
        self.retired = True
        if self.pins == 0:
            self._end()

    def move_to(self, cache: "FileCache") -> None:
        """Let another cache open it; nobody has it pinned."""
        self._cache.close(self)
        self._cache = cache

    def _end(self) -> None:
        self._cache.close(self)
        # File and owner would keep each other alive, and what was there at start for ever: the
        # garbage collector does not look at it.
        self.on_close = None


class Slice(NamedTuple):
    """A stretch of a file, pinned: its owner calls `file.unpin()` once when done."""

    file: OpenFile
    position: int
    size: int


class ColdReadError(Exception):
    """What was asked for is not in the page cache, and the caller does not wait for a disk.

    The stretch is what has to be read first; it is not pinned. `hold` it, `read` it in a thread,
    `release` it, and ask again.
    """

    def __init__(self, stretch: Slice) -> None:
        super().__init__(f"{stretch.file.path} at {stretch.position}")
        self.stretch = stretch

    def hold(self) -> None:
        """Keep what is to be read from being closed; raises OSError."""
        self.stretch.file.pin()

    def read(self) -> None:
        """Bring it into the page cache; raises OSError. Runs in a thread."""
        read_from_disk(self.stretch)

    def release(self) -> None:
        """Nobody reads it any more."""
        self.stretch.file.unpin()


class ColdFileError(ColdReadError):
    """The same for a whole (small) file, which nobody keeps open."""

    def __init__(self, files: "Files", path: str) -> None:
        Exception.__init__(self, path)
        self._files = files
        self._path = path

    def hold(self) -> None:
        pass

    def read(self) -> None:
        self._files.read_file(self._path)

    def release(self) -> None:
        pass


class FileCache:
    """At most `limit` open data files; the least recently used unpinned one makes room.

    "Recently used" is the clock algorithm: using a file costs one attribute, not a list operation.
    """

    def __init__(self, limit: int, files: Files | None = None) -> None:
        self.files = files or Files()
        self._ring: OrderedDict[OpenFile, None] = OrderedDict()
        self._limit = limit

    def __len__(self) -> int:
        return len(self._ring)

    @property
    def limit(self) -> int:
        """How many files may be open; a lower limit closes some now."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit
        while len(self._ring) > limit and self._make_room():
            pass

    def file(self, path: str) -> OpenFile:
        """A handle for an existing file; it is opened on first use."""
        return OpenFile(self, path)

    def create(self, path: str) -> OpenFile:
        """Make an empty file and open it."""
        file = OpenFile(self, path)
        self._open(file, CREATE_EMPTY)
        return file

    def reopen(self, file: OpenFile) -> int:
        """Open a file that is closed."""
        return self._open(file, READ_WRITE)

    def _open(self, file: OpenFile, flags: int) -> int:
        if file.retired:
            raise FileNotFoundError(errno.ENOENT, "the file was deleted", file.path)
        if len(self._ring) >= self._limit:
            self._make_room()
        try:
            fd = self.files.open(file.path, flags, 0o600)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._make_room():
                raise
            fd = self.files.open(file.path, flags, 0o600)
        file.fd = fd
        file.used = False  # once is not yet recently: a scan of many files evicts only its own
        self._ring[file] = None
        return fd

    def close(self, file: OpenFile) -> None:
        """Close a file, pinned or not."""
        if file.fd >= 0:
            del self._ring[file]
            self._close(file)

    def _close(self, file: OpenFile) -> None:
        fd, file.fd = file.fd, -1
        if file.on_close is not None:
            file.on_close()
        try:
            self.files.close(fd)
        except OSError:
            pass  # What close() might tell about earlier writes, the next fsync tells for certain.

    def _make_room(self) -> bool:
        ring = self._ring
        for _ in range(2 * len(ring)):
            file, _ = ring.popitem(last=False)
            if file.pins or file.used:
                file.used = False
                ring[file] = None
            else:
                self._close(file)
                return True
        return False


def in_page_cache(fd: int, position: int, size: int) -> bool:
    """True where a stretch of a file can be read without waiting for the disk, as far as is known.

    One byte is asked for in every `READ_AT_ONCE`, about what the kernel reads ahead.
    """
    if not NOWAIT:
        return True
    byte = bytearray(1)
    last = position + size - 1
    try:
        while position < last:
            os.preadv(fd, (byte,), position, NOWAIT)
            position += READ_AT_ONCE
        os.preadv(fd, (byte,), last, NOWAIT)
    except BlockingIOError:
        return False
    except OSError:  # a file system without RWF_NOWAIT: reading it says what is wrong
        return True
    return True


def read_from_disk(stretch: Slice) -> None:
    """Bring a stretch of a file into the page cache; runs in a thread."""
    buffer = bytearray(READ_AT_ONCE)
    position = stretch.position
    end = position + stretch.size
    while position < end:
        got = os.preadv(stretch.file.fd, (memoryview(buffer)[: end - position],), position)
        if got == 0:
            return
        position += got


def read_stretch(stretch: Slice) -> bytes:
    """The bytes of a stretch of a file; in a thread, where they may not be in the page cache."""
    parts: list[bytes] = []
    position, left = stretch.position, stretch.size
    while left:
        part = os.pread(stretch.file.fd, left, position)
        if not part:
            raise OSError(f"{left} bytes of a log file are missing")
        parts.append(part)
        position += len(part)
        left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
