"""The disk and the page cache between and during measurements.

Where a virtual machine gives unused memory back to its host, a page that is used again costs
several microseconds: ten times the price of the write that wants it, and paid by whichever broker
happens to write first. `settle` takes this out of the figures: it writes back what is dirty and
puts as much backed memory on the kernel's free list as the round will use. A round must follow at
once, since the host takes the memory back after a few seconds.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

CHUNK = os.urandom(1 << 20)
STORM_BYTES = 4 << 20  # written before each fsync of the storm
EVICT_SECONDS = 0.2
PAGE = 4096


def settle(folder: Path, size: int) -> None:
    """Nothing dirty from before, and memory at hand for `size` bytes of page cache."""
    os.sync()
    scratch = folder / "settle"
    with scratch.open("wb", buffering=0) as file:
        for _ in range(size // len(CHUNK) + 1):
            file.write(CHUNK)
    scratch.unlink()


def warm(files: list[Path]) -> None:
    """Reads files, so that they are in the page cache."""
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.read(len(CHUNK)):
                pass


def warm_ends(files: list[Path]) -> None:
    """Reads the last page of files, where the next bytes go: else a write has to wait for it."""
    for path in files:
        with path.open("rb", buffering=0) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - PAGE))
            file.read(PAGE)


def evict(files: list[Path]) -> None:
    """Drops files from the page cache; their dirty pages stay, so sync before."""
    for path in files:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # a segment may go at any time
            continue
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


@contextmanager
def kept_cold(files: list[Path]) -> Iterator[None]:
    """Files that are dropped from the page cache again and again meanwhile."""
    os.sync()
    with _meanwhile(lambda: evict(files), EVICT_SECONDS):
        yield


@contextmanager
def fsync_storm(folder: Path) -> Iterator[None]:
    """Writes and fsyncs of another client on the same disk meanwhile, one after the other."""
    scratch = folder / "storm"
    with scratch.open("wb", buffering=0) as file:

        def write() -> None:
            file.seek(0)
            for _ in range(STORM_BYTES // len(CHUNK)):
                file.write(CHUNK)
            os.fsync(file.fileno())

        with _meanwhile(write, 0):
            yield
    scratch.unlink()


@contextmanager
def _meanwhile(act: Callable[[], None], pause: float) -> Iterator[None]:
    stop = threading.Event()
    failures: list[OSError] = []

    def repeat() -> None:
        try:
            act()
            while not stop.wait(pause):
                act()
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]
