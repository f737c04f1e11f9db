"""A Produce request with very many partitions: nothing is done in one turn of the loop.

Rules kept here:
1. A thread reads it and writes its reply; its batches are verified and appended in turns.
2. What a transaction was when its coordinator was asked is noted before the first question: what
   ends while other batches are verified gets no further batch.
3. Few of them are in memory at once.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from ottla.api.produce_batches import (
    Appending,
    Moments,
    begun_in,
    each_batch,
    note_moment,
)
from ottla.api.produce_replies import (
    may_use_transaction,
    refuse_all,
    refuse_without_id,
)
from ottla.api.registry import Request
from ottla.broker.replicas.decoding import WaitsFor, unhurried
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.verification import Verdict, is_transactional, verify
from ottla.broker.scheduling.turns import Turns
from ottla.wire import produce as wire
from ottla.wire.errors import ErrorCode
from ottla.wire.fields import DecodeError
from ottla.wire.headers import KEPT_FRAME_BYTES
from ottla.wire.produce import ProduceRequest
from ottla.wire.reply import Parts, UnanswerableError

MOST_READ_AT_ONCE: Final = 1000
"""Partitions of a request that is read on the loop: about a millisecond."""
MOST_VERIFIED_AT_ONCE: Final = 1000


def produce_many(request: Request, body: memoryview, at: int) -> Coroutine[Any, Any, Parts | None]:
    """Append every batch, then answer when what acks promises is true."""
    own = body[at:] if len(body) > KEPT_FRAME_BYTES else memoryview(bytearray(body[at:]))
    return _produce_many(request, own)


async def _produce_many(request: Request, body: memoryview) -> Parts | None:
    decoding, version = request.node.decoding, request.version
    async with decoding.long_requests[WaitsFor.REPLICAS]:
        try:
            asked, in_transaction = await decoding.of_message(lambda: _read(body, version))
        except DecodeError as problem:
            raise UnanswerableError(f"malformed Produce v{version}: {problem}") from None
        if not -1 <= asked.acks <= 1:
            code = ErrorCode.INVALID_REQUIRED_ACKS
            return (await decoding.of_message(lambda: refuse_all(version, asked, code)),)
        if not in_transaction:
            return await Appending(request, asked, None, is_own=True).in_turns()
        if asked.transactional_id is None or not may_use_transaction(request, asked):
            return (await decoding.of_message(lambda: refuse_without_id(version, asked)),)
        moments: Moments = {}
        verdict = await _verified(request, asked, asked.transactional_id, moments)
        return await Appending(request, asked, verdict, True, moments).in_turns()


def _read(body: memoryview, version: int) -> tuple[ProduceRequest, bool]:
    """The request, and whether some batch is part of a transaction."""
    asked = wire.read_request(body, 0, version, each=unhurried)
    return asked, any(is_transactional(records) for _, _, records in unhurried(each_batch(asked)))


async def _verified(
    request: Request, asked: ProduceRequest, transactional_id: str, moments: Moments
) -> Verdict:
    turns = Turns()
    begun: list[tuple[Partition, memoryview]] = []
    for topic, index, records in each_batch(asked):
        found = begun_in(request, topic, index, records)
        if found is not None:
            note_moment(request, topic, index, records, moments)
            begun.append(found)
        await turns.give_way()
    verdict: Verdict = {}
    for start in range(0, len(begun), MOST_VERIFIED_AT_ONCE):
        some = begun[start : start + MOST_VERIFIED_AT_ONCE]
        answer = verify(
            request.node.transactions, request.node.config, transactional_id, request.version, some
        )
        verdict |= answer if isinstance(answer, dict) else await answer
        await turns.give_way()
    return verdict
