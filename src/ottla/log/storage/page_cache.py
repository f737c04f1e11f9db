"""Reading without waiting for the disk: what is in the page cache, and what must be read first.

Rules kept here:
1. The event loop never waits for a disk: where bytes are not in the page cache, ColdReadError says
   what a thread has to read before the caller asks again.
2. A file system that cannot tell (no RWF_NOWAIT) counts as cached.
"""

import os

from ottla.log.storage.file_cache import Slice
from ottla.log.storage.files import NOWAIT, Files

READ_AT_ONCE = 128 << 10


class ColdReadError(Exception):
    """The bytes are not in the page cache, and the caller may not wait for the disk.

    `stretch` has to be read first; it is not pinned. `hold` it, `read` it in a thread, `release`
    it, and ask again.
    """

    def __init__(self, stretch: Slice) -> None:
        super().__init__(f"{stretch.file.path} at {stretch.position}")
        self.stretch = stretch

    def hold(self) -> None:
        """Pin the file to be read; raises OSError."""
        self.stretch.file.pin()

    def read(self) -> None:
        """Bring it into the page cache; raises OSError. Runs in a thread."""
        read_from_disk(self.stretch)

    def release(self) -> None:
        """Unpin what was read."""
        self.stretch.file.unpin()


class ColdFileError(ColdReadError):
    """The same for a whole (small) file, which is not kept open."""

    def __init__(self, files: Files, path: str) -> None:
        Exception.__init__(self, path)
        self._files = files
        self._path = path

    def hold(self) -> None:
        pass

    def read(self) -> None:
        self._files.read_file(self._path)

    def release(self) -> None:
        pass


def in_page_cache(fd: int, position: int, size: int) -> bool:
    """True if a stretch of a file can be read without waiting for the disk, as far as is known.

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
