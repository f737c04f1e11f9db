"""What a fetch for many partitions changes before it looks at them, in turns of the loop.

Rules kept here:
1. A new session is kept when all that is wanted of it is known. One that is there is taken for this
   request at once: its epoch has moved on before others have a turn.
2. A session that ends meanwhile lets go of what was added to it, and is not found.
3. Each position of a follower is noted once, and checked in the same turn, as if it had come then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from ottla.broker.replicas import follower_fetches
from ottla.broker.replicas.fetch_context import FetchContext
from ottla.broker.replicas.fetch_sessions import NO_SESSION, FetchSession
from ottla.broker.scheduling.turns import Turns
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch import FetchRequest
from ottla.wire.produce import TopicKey

PIECE: Final = 100
T = TypeVar("T")


async def arrived(
    context: FetchContext, request: FetchRequest, version: int, owner: object = None
) -> tuple[FetchSession, bool]:
    """As `FetchSessions.begin`, and with the positions of a follower noted."""
    turns = Turns()
    found = await _begun(context, request, version, turns, owner)
    follower = follower_fetches.follower_of(request)
    if follower is not None:
        for piece in _pieces(request.topics):
            follower_fetches.note_positions(context, follower, piece)
            await turns.give_way()
    return found


async def _begun(
    context: FetchContext, request: FetchRequest, version: int, turns: Turns, owner: object
) -> tuple[FetchSession, bool]:
    sessions = context.sessions
    now = context.clock.elapsed_ms()
    session, full = sessions.open(request, version, now, owner)
    for piece in _pieces(request.topics):
        session.want(piece)
        await turns.give_way()
    if full:
        sessions.keep_if_asked(session, request, now)
        return session, True
    for forgotten in _pieces(request.forgotten):
        session.forget(forgotten)
        await turns.give_way()
    if session.id == NO_SESSION:
        session.end()
        raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    if session.wanted:
        return session, False
    session = sessions.replace_empty(session, request, now)
    for piece in _pieces(request.topics):
        session.want(piece)
        await turns.give_way()
    return session, True


def _pieces(
    topics: list[tuple[TopicKey, list[T]]],
) -> Iterator[list[tuple[TopicKey, list[T]]]]:
    """Parts of about PIECE partitions each."""
    held: list[tuple[TopicKey, list[T]]] = []
    count = 0
    for topic, partitions in topics:
        for start in range(0, len(partitions) or 1, PIECE):
            part = partitions[start : start + PIECE]
            held.append((topic, part))
            count += len(part) + 1
            if count >= PIECE:
                yield held
                held, count = [], 0
    if held:
        yield held
