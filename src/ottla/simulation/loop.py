"""The event loop with simulated time.

Rules kept here:
1. Time stands still while anything can run, and then jumps to the next timer: days pass in seconds.
2. Callbacks run in the order in which they were scheduled. What may come in another order
   (replies of other hosts, results of threads) takes a time that the seed chooses.
3. Work for threads is done on the loop, a moment later, as one step of the process that asked.
4. Callbacks of dead processes do not run, those of paused ones are kept (`process.py`).
5. An unhandled exception is a finding: the run fails.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

from ottla.simulation.process import PROCESS

T = TypeVar("T")

THREAD_SECONDS: Final = (0.000_05, 0.003)
"""How long work in a thread may take."""
MOST_TURNS_AT_ONCE: Final = 200_000
"""Without time passing; more of them are a loop that spins."""


class LoopStuck(Exception):  # noqa: N818 it names what happened
    """Nothing is left to happen, or time does not pass any more."""


class _Handle(asyncio.Handle):
    """A callback of a process."""

    def _run(self) -> None:
        process = self._context.get(PROCESS)  # type: ignore[attr-defined]  # not in the stubs
        if process is None or process.runs:
            super()._run()
        elif process.alive:
            process.held.append(self)


class _TimerHandle(asyncio.TimerHandle):
    """A timer of a process. Timers of one moment run in the order in which they were set."""

    number = 0

    def __lt__(self, other: object) -> bool:
        assert isinstance(other, _TimerHandle)
        return (self._when, self.number) < (other._when, other.number)  # type: ignore[attr-defined]  # not in the stubs

    def _run(self) -> None:
        process = self._context.get(PROCESS)  # type: ignore[attr-defined]  # not in the stubs
        if process is None or process.runs:
            super()._run()
        elif process.alive:
            process.held.append(self)


class _Watched(NamedTuple):
    """Who is called when a socket can be read, or written."""

    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: Context


class _Selector:
    """What the loop waits with: here time passes."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        self._loop.pass_time(timeout)
        return []


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs all processes of a simulation."""

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self._chance = chance
        self._seconds = 1000.0
        self._clock_resolution = 1e-9
        self._selector = _Selector(self)
        self._turns_at_once = 0
        self.turns = 0
        self._timers = 0
        self.readers: dict[int, _Watched] = {}
        self.writers: dict[int, _Watched] = {}
        self._called: set[tuple[str, int]] = set()
        """Which readers and writers are about to be called."""
        self.can_read: Callable[[int], bool] = lambda fd: False
        self.can_write: Callable[[int], bool] = lambda fd: False

    def time(self) -> float:
        """Seconds since some moment."""
        return self._seconds

    def pass_time(self, timeout: float | None) -> None:
        """Nothing can run before this many seconds have passed; None: nothing will."""
        self.turns += 1
        if timeout == 0:
            self._turns_at_once += 1
            if self._turns_at_once > MOST_TURNS_AT_ONCE:
                raise LoopStuck("the loop spins: time does not pass")
            return
        if timeout is None:
            raise LoopStuck("nothing is left to happen")
        self._turns_at_once = 0
        scheduled = self._scheduled  # type: ignore[attr-defined]  # not in the stubs
        self._seconds = max(self._seconds, min(scheduled[0].when(), self._seconds + timeout))

    def _process_events(self, event_list: list[object]) -> None:
        """There are none: sockets schedule callbacks."""

    def _write_to_self(self) -> None:
        """There is one thread."""

    def _call_soon(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]  # not in the stubs
        return handle

    def run_again(self, handle: asyncio.Handle) -> None:
        """Run a callback that was kept."""
        self._ready.append(handle)  # type: ignore[attr-defined]  # not in the stubs

    def call_soon_threadsafe(  # type: ignore[override]  # the stub's is generic
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """There is one thread."""
        return self._call_soon(callback, args, context)

    def call_at(  # type: ignore[override]  # as above
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call it at a time."""
        timer = _TimerHandle(when, callback, args, self, context)
        self._timers += 1
        timer.number = self._timers
        scheduled = self._scheduled  # type: ignore[attr-defined]  # not in the stubs
        heapq.heappush(scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]  # as above
        return timer

    def create_task(  # type: ignore[override]  # the stub's differs between versions
        self, coro: Coroutine[Any, Any, T], **options: Any
    ) -> asyncio.Task[T]:
        """Start a task; its process keeps it."""
        task = super().create_task(coro, **options)
        context = options.get("context") or copy_context()
        process = context.get(PROCESS)
        if process is not None:
            process.tasks.add(task)
            task.add_done_callback(process.tasks.discard)
        return task

    def run_in_executor(  # type: ignore[override]  # as above
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Do it a moment later."""
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as problem:  # noqa: BLE001 it is handed on
                future.set_exception(problem)
                del problem
            else:
                future.set_result(result)

        self.call_later(self._chance.uniform(*THREAD_SECONDS), work)
        return future

    # Descriptors --------------------------------------------------------------------------

    def add_reader(self, fd: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]  # as above
        """Call it whenever the socket can be read."""
        self.readers[fd] = _Watched(callback, args, copy_context())
        self.look_at(fd)

    def remove_reader(self, fd: int) -> bool:  # type: ignore[override]  # as above
        return self.readers.pop(fd, None) is not None

    def add_writer(self, fd: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]  # as above
        """Call it whenever the socket can be written."""
        self.writers[fd] = _Watched(callback, args, copy_context())
        self.look_at(fd)

    def remove_writer(self, fd: int) -> bool:  # type: ignore[override]  # as above
        return self.writers.pop(fd, None) is not None

    def look_at(self, fd: int) -> None:
        """Something about a socket has changed: call who can go on now."""
        for kind, watchers, can in (
            ("r", self.readers, self.can_read),
            ("w", self.writers, self.can_write),
        ):
            watched = watchers.get(fd)
            if watched is not None and (kind, fd) not in self._called and can(fd):
                self._called.add((kind, fd))
                self._call_soon(self._call_watcher, (kind, fd), watched.context)

    def _call_watcher(self, kind: str, fd: int) -> None:
        self._called.discard((kind, fd))
        watchers, can = (
            (self.readers, self.can_read) if kind == "r" else (self.writers, self.can_write)
        )
        watched = watchers.get(fd)
        if watched is None or not can(fd):
            return
        watched.callback(*watched.args)
        self.look_at(fd)
