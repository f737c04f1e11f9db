"""Simulated processes: which one the running code belongs to, and what it may do.

Rules kept here:
1. A process is a value of a context variable. Callbacks, timers and tasks inherit it, so whatever a
   broker starts is the broker's.
2. What a dead process had planned never runs. What a paused one had planned runs when it is
   resumed.
3. Each process has a wall clock of its own, which may be set; elapsed time is everybody's.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context

    from ottla.simulation.disk import SimulatedDisk

T = TypeVar("T")

PROCESS: ContextVar[SimulatedProcess | None] = ContextVar("PROCESS", default=None)

WALL_CLOCK_AT_START: Final = 1_700_000_000.0


class SimulatedProcess:
    """One run of a program on one host: a broker, or a client."""

    def __init__(self, name: str, host: str, disk: SimulatedDisk | None = None) -> None:
        self.name = name
        self.host = host
        self.disk = disk
        self.alive = True
        self.paused = False
        self.wall_offset = 0.0
        """How far this host's wall clock is ahead."""
        self.boot_id = ""
        self.held: list[asyncio.Handle] = []
        """What was due while the process was paused."""
        self.tasks: set[asyncio.Task[object]] = set()
        """Kept, so that a dead process's tasks are not collected, which would run their ends."""

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def runs(self) -> bool:
        """Whether its code is executed now."""
        return self.alive and not self.paused

    def context(self) -> Context:
        """A context in which code is this process's."""
        context = copy_context()
        context.run(PROCESS.set, self)
        return context

    def call(self, function: Callable[[], T]) -> T:
        """Call a function as this process."""
        return self.context().run(function)

    def start(self, work: Coroutine[object, object, T], name: str | None = None) -> asyncio.Task[T]:
        """Run a coroutine as this process."""
        loop = asyncio.get_running_loop()
        return loop.create_task(work, name=name, context=self.context())


def current_process() -> SimulatedProcess:
    """The process that the running code belongs to."""
    process = PROCESS.get()
    assert process is not None, "only simulated processes do this"
    return process
