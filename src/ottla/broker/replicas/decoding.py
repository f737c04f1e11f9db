"""Threads for what takes long to read: requests with many elements, bodies of large batches.

Rules kept here:
1. What is read is the thread's own: nothing of a receive buffer, nothing that the loop changes.
2. The thread of batches hardly ever has the interpreter, and leaves the processor to the loop.
3. One batch is decompressed at a time, and few long requests are in memory: a client may send
   kilobytes that become a hundred megabytes. Those that wait for the metadata store, or for other
   replicas, have places of their own: while these do not answer, all others continue.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from time import sleep
from typing import Final, TypeVar

T = TypeVar("T")


class WaitsFor(Enum):
    """What a long request can wait for while it is in memory."""

    NOBODY = "only for its turn"
    STORE = "for the metadata store"
    REPLICAS = "for other replicas, or the disk"


LONG_REQUESTS: Final = 4
"""Of each kind. Each has at most MOST_ELEMENTS, some tens of megabytes with their answers."""

NICENESS: Final = 10
PIECE: Final = 200
PAUSE_SECONDS: Final = 0.0001


def _be_nice() -> None:
    """Let the loop go first where there are few processors; on Linux a thread has its own value."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        priority = min(19, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS)
        os.setpriority(os.PRIO_PROCESS, thread, priority)


def unhurried(elements: Iterable[T]) -> Iterator[T]:
    """The same elements, for a thread that works on them in Python: the loop goes first.

    It sleeps, since a thread that only lets go of the interpreter mostly has it back before the
    loop has noticed.
    """
    for number, element in enumerate(elements):
        if number % PIECE == PIECE - 1:
            sleep(PAUSE_SECONDS)
        yield element


class Decoding:
    """The threads of a broker that read what is long."""

    __slots__ = ("_batches", "_messages", "long_fetches", "long_requests")

    def __init__(self) -> None:
        self._batches = ThreadPoolExecutor(1, "ottla-batches", _be_nice)
        self._messages = ThreadPoolExecutor(1, "ottla-messages")
        self.long_requests = {kind: asyncio.Semaphore(LONG_REQUESTS) for kind in WaitsFor}
        """Held while a long request is in memory."""
        self.long_fetches = asyncio.Semaphore(LONG_REQUESTS)
        """The same for fetches, which never wait for anyone else while they hold it."""

    def of_batch(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Do what needs the records of a batch."""
        return asyncio.get_running_loop().run_in_executor(self._batches, work)

    def of_message(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Read a request, or write a reply."""
        return asyncio.get_running_loop().run_in_executor(self._messages, work)

    def stop(self) -> None:
        """Begin nothing new."""
        self._batches.shutdown(wait=False)
        self._messages.shutdown(wait=False)
