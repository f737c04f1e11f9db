"""Long work yields to others."""

import asyncio
from time import monotonic

from ottla.broker.scheduling.turns import TURN_SECONDS, Turns


def _work(seconds: float) -> None:
    ends = monotonic() + seconds
    while monotonic() < ends:
        pass


async def _turns_of_others(pieces: int, seconds: float) -> int:
    others = 0
    done = asyncio.Event()

    async def count() -> None:
        nonlocal others
        while not done.is_set():
            others += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    turns = Turns()
    for _ in range(pieces):
        _work(seconds)
        await turns.give_way()
    done.set()
    await counting
    return others


def test_others_have_a_turn_after_each_long_piece() -> None:
    assert asyncio.run(_turns_of_others(5, TURN_SECONDS * 1.1)) >= 5


def test_short_pieces_share_a_turn() -> None:
    assert asyncio.run(_turns_of_others(1000, 0.0)) < 100
