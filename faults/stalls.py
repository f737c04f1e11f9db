"""How long this machine did not let the harness run: such time is nobody's unavailability.

A thread on each core sleeps a little, over and over, and notes when it was woken much later than it
asked for. What runs beside it on a crowded machine, brokers and ZooKeeper, waited as long. On each,
because a virtual machine may lose one of its cores for seconds while the others continue. One more
thread does what every process here does all the time, and notes when it takes long: it uses fresh
memory, which the host of a virtual machine may be slow to give, and writes to the disk of the logs.

A scheduler may serve the harness and let a broker wait, so the kernel's account is read as well:
how long a thread of a broker or of ZooKeeper was ready to run and did not.
"""

import math
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

NAP_SECONDS = 0.02
WORTH_NOTING_SECONDS = 0.1
FRESH_BYTES = 1 << 20
LOOK_SECONDS = 0.25


class Stalls:
    """The stalls of one run."""

    def __init__(self, folder: Path, processes: Callable[[], Iterable[int]] = tuple) -> None:
        """`processes` tells the ids of those whose waiting counts; some may have ended."""
        self._processes = processes
        self._errands = folder / "errands.log"
        self._found: list[tuple[float, float]] = []
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(core,), name=f"stalls-{core}", daemon=True)
            for core in os.sched_getaffinity(0)
        ]
        self._threads.append(
            threading.Thread(target=self._run_errands, name="stalls-errands", daemon=True)
        )
        self._threads.append(
            threading.Thread(target=self._run_looks, name="stalls-looks", daemon=True)
        )

    def start(self) -> None:
        """Begin to watch."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End, and wait for that."""
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _run(self, core: int) -> None:
        os.sched_setaffinity(threading.get_native_id(), {core})
        before = time.monotonic()
        while not self._end.wait(NAP_SECONDS):
            now = time.monotonic()
            self.note(before + NAP_SECONDS, now)
            before = now

    def _run_errands(self) -> None:
        with self._errands.open("ab", buffering=0) as file:
            while not self._end.wait(NAP_SECONDS):
                began = time.monotonic()
                with mmap.mmap(-1, FRESH_BYTES) as memory:
                    for page in range(0, FRESH_BYTES, mmap.PAGESIZE):
                        memory[page] = 1
                file.write(b"still here\n")
                self.note(began, time.monotonic())

    def _run_looks(self) -> None:
        before = waited(self._processes())
        while not self._end.wait(LOOK_SECONDS):
            now, waits = time.monotonic(), waited(self._processes())
            # Of one that is new, the wait since it started.
            longest = max((waits[each] - before.get(each, 0.0) for each in waits), default=0.0)
            self.note(now - longest, now)
            before = waits

    def note(self, due: float, came: float) -> None:
        """A moment came later than it was due."""
        if came - due > WORTH_NOTING_SECONDS:
            self._found.append((due, came))

    def within(self, began: float, ended: float) -> float:
        """How many seconds of a time were stalled, on one core or on several."""
        seconds = 0.0
        for due, came in sorted(self._found):
            due, came = max(due, began), min(came, ended)
            if came > due:
                seconds += came - due
                began = came
        return seconds

    @property
    def total(self) -> float:
        """How many seconds were stalled in all."""
        return self.within(-math.inf, math.inf)


def waited(processes: Iterable[int]) -> dict[tuple[int, str], float]:
    """For each thread of these processes, the seconds in which it was ready and did not run."""
    found: dict[tuple[int, str], float] = {}
    for process in processes:
        try:
            for thread in Path(f"/proc/{process}/task").iterdir():
                nanoseconds = (thread / "schedstat").read_text().split()[1]
                found[process, thread.name] = int(nanoseconds) / 1e9
        except (OSError, IndexError):
            continue  # it has ended, or this kernel does not keep account
    return found
