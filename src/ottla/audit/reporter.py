"""Reports what a client counts, from a thread of its own.

Rules kept here:
1. The first record that is counted starts the thread and is reported at once, so that a death soon
   after it is seen; then every interval, until an interval without news.
2. What could not be written is written again the next time; events may be doubled by that, and
   count once. After `MOST_WAITING` the oldest are given up: the check sees that they are missing.
3. Failures of the audit are logged, and do not fail the application.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event as Flag
from threading import Lock, Thread

from ottla.audit.events import Event
from ottla.audit.tally import Tally

MOST_WAITING = 10_000

log = logging.getLogger("ottla.audit")

Write = Callable[[Sequence[Event]], list[Event]]
"""Writes events and returns those that could not be written."""


class Reporter:
    """Counts records and reports them."""

    def __init__(self, tally: Tally, write: Write, interval_ms: int) -> None:
        self._tally = tally
        self._write = write
        self._interval = interval_ms / 1000
        self._lock = Lock()
        self._writing = Lock()
        self._waiting: deque[Event] = deque()
        self._thread: Thread | None = None
        self._idle = True
        self._news = Flag()
        self._closed = Flag()

    def count(self, topic: str, partition: int, timestamp_ms: int, offset: int) -> None:
        """Count a record; `offset` is -1 where it is not known."""
        with self._lock:
            self._tally.add(topic, partition, timestamp_ms, offset)
            if self._idle:
                self._wake()

    def begin_transaction(self) -> None:
        """What is counted from now on waits for the transaction's end."""
        with self._lock:
            self._tally.begin_transaction()

    def end_transaction(self, *, committed: bool) -> None:
        """A transaction has ended."""
        with self._lock:
            self._tally.end_transaction(committed=committed)
            if self._idle:
                self._wake()

    def close(self) -> None:
        """Report the rest; nothing is counted after it."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join()
        self._report(last=True)

    def _wake(self) -> None:
        if not self._tally.has_news or self._closed.is_set():
            return
        self._idle = False
        self._news.set()
        if self._thread is None:
            self._thread = Thread(target=self._run, name="ottla-audit", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._news.wait()
            self._news.clear()
            self._report()
            while not self._closed.wait(self._interval):
                self._report()
                with self._lock:
                    self._idle = not self._tally.has_news and not self._waiting
                    if self._idle:
                        break

    def _report(self, *, last: bool = False) -> None:
        with self._writing:
            with self._lock:
                self._waiting.extend(self._tally.report(time.time_ns() // 1_000_000, last=last))
                while len(self._waiting) > MOST_WAITING:
                    self._waiting.popleft()
                events = list(self._waiting)
            if not events:
                return
            try:
                left = self._write(events)
            except Exception as problem:  # noqa: BLE001 rule 3
                log.warning("failed to write audit events: %s", problem)
                return
            if left:
                log.warning("%d audit events not written yet; retrying", len(left))
            with self._lock:
                self._waiting = deque(left)
