"""Background work that no request waits for, and how its failures are logged.

Rules kept here:
1. A failure is a line in the log. One of storage has its line already where it was met.
2. A caller that stops the broker can wait for all that is under way.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import structlog

from ottla.wire.errors import ErrorCode, KafkaError

log = structlog.get_logger()

T = TypeVar("T")


class Background:
    """The tasks of one broker that continue by themselves."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter([*self._tasks])

    def __len__(self) -> int:
        return len(self._tasks)

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start something."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        problem = None if task.cancelled() else task.exception()
        if isinstance(problem, KafkaError):
            if problem.code != ErrorCode.KAFKA_STORAGE_ERROR:
                log.error("background task failed", reason=str(problem))
        elif problem is not None:
            log.error("background task failed", exc_info=problem)
