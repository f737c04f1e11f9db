"""What one call of a shard gathers before it becomes a Result.

A handler that refuses a request does so before it has gathered or changed anything, so a step
that is thrown away takes nothing with it.
"""

from collections.abc import Hashable
from typing import TypeVar

from msgspec import Struct

from ottla.coordinator.shard import (
    CancelTimer,
    Completion,
    CoordinatorRecord,
    Deferred,
    Result,
    SetTimer,
)
from ottla.wire.message import Message

R = TypeVar("R")


class Step(Struct):
    """One call, at one moment."""

    now: int
    records: list[CoordinatorRecord] = []
    completions: list[Completion] = []
    timers: list[SetTimer | CancelTimer] = []

    def complete(self, token: int, reply: Message) -> None:
        """Answer a parked request."""
        self.completions.append(Completion(token, reply))

    def set_timer(self, key: Hashable, delay_ms: int) -> None:
        """Set a timer, counted from now."""
        self.timers.append(SetTimer(key, self.now + delay_ms))

    def cancel_timer(self, key: Hashable) -> None:
        """Forget a timer."""
        self.timers.append(CancelTimer(key))

    def result(self, reply: R | Deferred) -> Result[R]:
        """What was gathered, with the reply to the request at hand."""
        return Result(reply, self.records, self.completions, self.timers)
