"""Open data files: a limited number of them, reopened when they are used.

Rules kept here:
1. Data files are reached through `OpenFile`: the cache may close it when too many files are open,
   and reopens it on use.
2. A pinned file stays open until it is unpinned, even when it is evicted, retired or unlinked:
   a reader in the middle of sendfile is not disturbed.
"""

import errno
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from ottla.log.storage.files import CREATE_EMPTY, READ_WRITE, Files


class OpenFile:
    """A data file that is opened when it is used and may be closed when it is not."""

    __slots__ = ("_cache", "fd", "on_close", "path", "pins", "retired", "used")

    def __init__(self, cache: "FileCache", path: str) -> None:
        self.path = path
        self.fd = -1
        """The descriptor, or -1 while closed. pin() keeps it open."""
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
        self.used = True
        fd = self.fd if self.fd >= 0 else self._cache.reopen(self)
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
        """Move it to another cache; it must not be pinned."""
        self._cache.close(self)
        self._cache = cache

    def _end(self) -> None:
        self._cache.close(self)
        # File and owner refer to each other, and objects from the start are frozen: the garbage
        # collector would never free them.
        self.on_close = None


class Slice(NamedTuple):
    """A stretch of a file, pinned: its owner calls `file.unpin()` once when done."""

    file: OpenFile
    position: int
    size: int


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
