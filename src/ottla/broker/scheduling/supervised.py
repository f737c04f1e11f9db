"""A task that a broker needs at all times: a failure does not end it.

A task that ends with an exception which nobody awaits leaves a broker that looks alive and no
longer elects leaders, moves the ISR or watches its lease.

Rules kept here:
1. Work that returns is done; `begin` starts it again. Work that raises is logged with its traceback
   and started again after a pause. So is work that waited for something which was cancelled.
2. The pause doubles while the work fails at once, so that a failure that stays does not fill the
   log.
3. At most one task runs the work, and `stop` ends it permanently.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

log = structlog.get_logger()

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0


class SupervisedTask:
    """Runs one piece of long-lived work; `name` is what the log calls it."""

    def __init__(
        self,
        name: str,
        work: Callable[[], Coroutine[Any, Any, None]],
        pause_seconds: float = FIRST_PAUSE_SECONDS,
    ) -> None:
        self._name = name
        self._work = work
        self._first_pause = pause_seconds
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._failing = False
        self._settled = asyncio.Event()

    @property
    def running(self) -> bool:
        """Whether there is work under way, or work that failed and is going to be retried."""
        return self._task is not None

    def begin(self) -> None:
        """Start the work, unless it is under way already or was stopped."""
        if self._task is None and not self._stopped:
            self._settled.clear()
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)

    async def settled(self) -> None:
        """Wait until no work is under way, or until it has failed: retrying may take for ever."""
        while self._task is not None and not self._failing:
            await self._settled.wait()

    async def stop(self) -> None:
        """End the work, and do not start it again."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        pause = self._first_pause
        try:
            while True:
                began = loop.time()
                try:
                    await self._work()
                    self._failing = False
                    return
                except asyncio.CancelledError:
                    if self._is_cancelled():
                        raise
                    self._failed()
                except Exception:  # noqa: BLE001 it is logged
                    self._failed()
                if loop.time() - began > LONGEST_PAUSE_SECONDS:
                    pause = self._first_pause
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        finally:
            self._task = None
            self._settled.set()

    def _is_cancelled(self) -> bool:
        return self._task is None or self._task.cancelling() > 0

    def _failed(self) -> None:
        """Called while the exception is handled."""
        self._failing = True
        self._settled.set()
        log.exception("background task failed; retrying", task=self._name)
