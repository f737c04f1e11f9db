"""A value that is not there yet, the one type for it: from the partition to the connection.

Rules kept here:
1. It ends once: completed with a value, failed with an error, or abandoned, because nobody waits
   for it. To end it twice is a mistake and raises. To complete or fail it after it was
   abandoned does nothing: the side that works on it may not know.
2. The side that waits is called once, when it is completed or failed; at once if it already is.
   It is not called when it is abandoned.
3. The side that works on it can ask to be called when it is abandoned.
4. It knows no event loop, thread or clock.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Ending(Enum):
    """What became of it."""

    WAITING = "not there yet"
    COMPLETED = "has a value"
    FAILED = "there will be no value"
    ABANDONED = "nobody waits for it"


# By these names, where it counts: to look a member up in its class costs more than the rest.
WAITING: Final = Ending.WAITING
COMPLETED: Final = Ending.COMPLETED
FAILED: Final = Ending.FAILED
ABANDONED: Final = Ending.ABANDONED


class EndedTwice(Exception):  # noqa: N818 (it names what happened)
    """A value that had already ended was completed or failed."""


class Later(Generic[T]):
    """A value that is not there yet."""

    __slots__ = ("_error", "_on_abandoned", "_on_done", "_value", "by_task", "ending")

    def __init__(self, *, by_task: bool = False) -> None:
        self.ending = WAITING
        self.by_task = by_task
        """True where a task works on it: what the request changes may not have happened yet."""
        self._value: T | None = None
        self._error: BaseException | None = None
        self._on_done: Callable[[], None] | None = None
        self._on_abandoned: Callable[[], None] | None = None

    @property
    def done(self) -> bool:
        """True once it is completed or failed."""
        return self.ending is COMPLETED or self.ending is FAILED

    # The side that works on it -------------------------------------------------------------

    def complete(self, value: T) -> None:
        """The value is there."""
        if self.ending is WAITING or self._may_end():
            self._value = value
            self.ending = COMPLETED
            call, self._on_done, self._on_abandoned = self._on_done, None, None
            if call is not None:
                call()

    def fail(self, error: BaseException) -> None:
        """There will be no value, for this reason."""
        if self.ending is WAITING or self._may_end():
            self._error = error
            self.ending = FAILED
            call, self._on_done, self._on_abandoned = self._on_done, None, None
            if call is not None:
                call()

    def make(self, make: Callable[[], T]) -> None:
        """Complete it with what a function returns, or fail it with what the function raises."""
        try:
            value = make()
        except Exception as error:  # noqa: BLE001 the side that waits gets it
            self.fail(error)
        else:
            self.complete(value)

    def when_abandoned(self, stop: Callable[[], None]) -> None:
        """Call this when it is abandoned."""
        self._on_abandoned = stop

    def _may_end(self) -> bool:
        """False where nobody waits; raises EndedTwice."""
        if self.ending is ABANDONED:
            return False
        raise EndedTwice(f"it is {self.ending.name} already")

    # The side that waits -------------------------------------------------------------------

    def then(self, call: Callable[[], None]) -> None:
        """Call this when it is completed or failed; `result` gives the outcome."""
        if self.done:
            call()
        else:
            self._on_done = call

    def result(self) -> T:
        """The value; raises the error it failed with."""
        if self.ending is COMPLETED:
            return self._value  # type: ignore[return-value]  # set when it was completed
        if self._error is not None:
            raise self._error
        raise RuntimeError(f"no result: {self.ending.value}")

    def abandon(self) -> None:
        """Nobody waits for it: stop the work on it."""
        if self.ending is WAITING:
            self.ending = ABANDONED
            stop, self._on_abandoned, self._on_done = self._on_abandoned, None, None
            if stop is not None:
                stop()

    def map(self, change: Callable[[T], U]) -> Later[U]:
        """Another one: what a function makes of the value. An error stays the same error."""
        following: Later[U] = _Following(self, change, None)
        return following

    def otherwise(self, recover: Callable[[BaseException], T]) -> Later[T]:
        """Another one: the same value, or what a function makes of the error."""
        following: Later[T] = _Following(self, None, recover)
        return following


class _Following(Later[Any]):
    """What becomes of another one. Without closures: every reply that waits has two of these."""

    __slots__ = ("_before", "_change", "_recover")

    def __init__(
        self,
        before: Later[Any],
        change: Callable[[Any], Any] | None,
        recover: Callable[[BaseException], Any] | None,
    ) -> None:
        super().__init__(by_task=before.by_task)
        self._before = before
        self._change = change
        self._recover = recover
        self._on_abandoned = before.abandon
        before.then(self._go_on)

    def _go_on(self) -> None:
        before = self._before
        change: Callable[[Any], Any] | None = self._change
        given: Any = before._value
        if before._error is not None:
            change, given = self._recover, before._error
            if change is None:
                self.fail(given)
                return
        try:
            value = given if change is None else change(given)
        except Exception as error:  # noqa: BLE001 the side that waits gets it
            self.fail(error)
        else:
            self.complete(value)
