"""What one call of a shard gathers before it becomes a Result.

A handler that refuses a request does so before it has gathered or changed anything, so a draft
that is thrown away takes nothing with it.
"""

from collections.abc import Callable, Hashable
from typing import TypeVar

from msgspec import Struct

from ottla.coordinator.batch_sizes import NOTHING, UNLIMITED, fits
from ottla.coordinator.shard import (
    CancelTimer,
    Completion,
    CoordinatorRecord,
    Deferred,
    Effect,
    Result,
    SetTimer,
)
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import Message

R = TypeVar("R")


class ResultDraft(Struct):
    """The Result of one call, at one moment, in the making."""

    now: int
    largest_batch: Callable[[], int] = lambda: UNLIMITED
    """What the shard's partition takes at the moment."""
    records: list[CoordinatorRecord] = []
    completions: list[Completion] = []
    timers: list[SetTimer | CancelTimer] = []
    effects: list[Effect] = []
    is_atomic: bool = True

    @property
    def limit(self) -> int:
        """The size of a batch that the shard's partition takes."""
        return self.largest_batch()

    @property
    def refusal(self) -> ErrorCode:
        """What to say of something that does not fit. Kafka has no better word for it either."""
        if self.limit == NOTHING:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.UNKNOWN_SERVER_ERROR

    def fits(self, *more: CoordinatorRecord) -> bool:
        """Whether what was gathered, with these records, goes into one batch."""
        return fits([*self.records, *more], self.limit)

    def has_room_for(self, record: CoordinatorRecord) -> bool:
        """Whether a record goes into a batch of its own."""
        return fits([record], self.limit)

    def check_fits(self) -> None:
        """Refuse what does not go into one batch."""
        if not fits(self.records, self.limit):
            raise KafkaError(self.refusal, "The coordinator cannot write what follows from this.")

    def discard(self) -> None:
        """Forget what was gathered: the request is refused after all."""
        self.records, self.completions, self.timers, self.effects = [], [], [], []

    def complete(self, token: int, reply: Message) -> None:
        """Answer a parked request."""
        self.completions.append(Completion(token, reply))

    def set_timer(self, key: Hashable, delay_ms: int) -> None:
        """Set a timer, counted from now."""
        self.timers.append(SetTimer(key, delay_ms))

    def cancel_timer(self, key: Hashable) -> None:
        """Forget a timer."""
        self.timers.append(CancelTimer(key))

    def result(self, reply: R | Deferred) -> Result[R]:
        """What was gathered, with the reply to the request at hand."""
        return Result(
            reply,
            self.records,
            self.completions,
            self.timers,
            self.effects,
            is_atomic=self.is_atomic,
        )
