"""A reply that a coordinator gives later.

Rules kept here:
1. Where the coordinator is dropped before it answers, the reply is a refusal.
2. Nothing runs while it waits: a group of a thousand members that join costs no thousand tasks.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Generic, Self, TypeVar

from ottla.wire.errors import ErrorCode, KafkaError

R = TypeVar("R")


class Promise(Generic[R]):
    """What will be answered; `await` it, or say what is to be done `then`."""

    __slots__ = ("_change", "_future", "_refuse")

    def __init__(
        self, future: asyncio.Future[R], refuse: Callable[[ErrorCode, str | None], R]
    ) -> None:
        self._future = future
        self._refuse = refuse
        self._change: Callable[[R], R] | None = None

    def changed_by(self, change: Callable[[R], R]) -> Self:
        """The same, with something done to the reply, also where it is a refusal."""
        self._change = change
        return self

    def then(self, act: Callable[[Callable[[], R]], None]) -> None:
        """Call with what gives the reply (or raises), in a turn of the loop of its own."""
        self._future.add_done_callback(lambda _: act(self._reply))

    def __await__(self) -> Generator[object, None, R]:
        yield from asyncio.wait([self._future]).__await__()
        return self._reply()

    def _reply(self) -> R:
        try:
            reply = self._future.result()
        except KafkaError as problem:
            reply = self._refuse(problem.code, problem.message)
        return reply if self._change is None else self._change(reply)
