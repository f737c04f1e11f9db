"""To wait in a coroutine for a value that may not be there yet."""

import asyncio
from typing import TypeVar, overload

from ottla.later import Later

T = TypeVar("T")


@overload
async def settled(reply: Later[T]) -> T: ...


@overload
async def settled(reply: T | Later[T]) -> T: ...


async def settled(reply: T | Later[T]) -> T:
    """The value, once it is there; raises what it failed with.

    It is abandoned where the coroutine is cancelled.
    """
    if not isinstance(reply, Later):
        return reply
    later: Later[T] = reply
    if not later.done:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        later.then(lambda: None if done.done() else done.set_result(None))
        try:
            await done
        except asyncio.CancelledError:
            later.abandon()
            raise
    return later.result()
