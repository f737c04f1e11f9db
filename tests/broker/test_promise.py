"""Replies that come later, and the refusals in their place."""

import asyncio

from ottla.broker.promise import Promise
from ottla.wire.errors import ErrorCode, KafkaError


def refuse(code: ErrorCode, message: str | None) -> str:
    return f"{code.name} {message}"


async def told(
    promise: Promise[str], settle: asyncio.Future[str], outcome: str | KafkaError
) -> str:
    heard: list[str] = []
    promise.then(lambda reply: heard.append(reply()))
    if isinstance(outcome, KafkaError):
        settle.set_exception(outcome)
    else:
        settle.set_result(outcome)
    assert not heard, "a reply has a turn of its own"
    awaited = await promise
    assert heard == [awaited]
    return awaited


def test_the_reply_is_told_and_awaited() -> None:
    async def live() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        assert await told(Promise(future, refuse), future, "yes") == "yes"

    asyncio.run(live())


def test_a_dropped_coordinator_refuses() -> None:
    async def live() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        dropped = KafkaError(ErrorCode.NOT_COORDINATOR, "moved")
        assert await told(Promise(future, refuse), future, dropped) == "NOT_COORDINATOR moved"

    asyncio.run(live())


def test_a_change_is_made_to_replies_and_refusals() -> None:
    async def live() -> None:
        loop = asyncio.get_running_loop()
        for outcome in ("yes", KafkaError(ErrorCode.NOT_COORDINATOR, "yes")):
            future: asyncio.Future[str] = loop.create_future()
            promise = Promise(future, lambda _, message: message or "").changed_by(str.upper)
            assert await told(promise, future, outcome) == "YES"

    asyncio.run(live())
