"""What is due later, of very many: one timer for all that is due at about the same time.

A timer of the loop for each of ten thousand partitions would wake a broker hundreds of times a
second, and each time for a glance at one of them.

Rules kept here:
1. Nothing comes before its time, and nothing later than a moment after it.
2. What is due together comes in the order in which it was put here.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Agenda(Generic[T]):
    """Things that are due some time, and who is called when they are."""

    def __init__(self, moment_seconds: float, due: Callable[[list[T]], None]) -> None:
        self._moment = moment_seconds
        self._due = due
        self._moments: dict[int, list[T]] = {}

    def put(self, delay_seconds: float, thing: T) -> None:
        """This is due after a while."""
        loop = asyncio.get_running_loop()
        number = math.ceil((loop.time() + delay_seconds) / self._moment)
        things = self._moments.get(number)
        if things is None:
            self._moments[number] = things = []
            loop.call_at(number * self._moment, self._come, number)
        things.append(thing)

    def _come(self, number: int) -> None:
        self._due(self._moments.pop(number))
