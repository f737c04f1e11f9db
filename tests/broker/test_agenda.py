"""What is due later comes in its time, and together with what is due at about the same time."""

import asyncio

from ottla.broker.scheduling.agenda import Agenda
from testkit.waiting import stretched
from testkit.waiting import until_on_loop as until

MOMENT = 0.05


def test_what_is_due_within_a_moment_comes_together_and_never_early() -> None:
    async def live() -> None:
        loop = asyncio.get_running_loop()
        came: list[tuple[float, list[str]]] = []
        agenda: Agenda[str] = Agenda(MOMENT, lambda things: came.append((loop.time(), things)))
        began = loop.time()
        # Two that are due in the same moment, whenever this test begins, and one long after them.
        moment = (int(began / MOMENT) + 2) * MOMENT
        agenda.put(moment + MOMENT * 0.2 - began, "first")
        agenda.put(10 * MOMENT, "last")
        agenda.put(moment + MOMENT * 0.8 - began, "second")
        await until(lambda: len(came) == 2)
        (early, together), (late, alone) = came
        assert together == ["first", "second"]
        assert early >= moment + MOMENT * 0.8
        assert alone == ["last"]
        assert late >= began + 10 * MOMENT

    asyncio.run(live())


def test_what_is_due_puts_itself_there_again() -> None:
    async def live() -> None:
        done = asyncio.Event()
        seen: list[int] = []

        def due(things: list[int]) -> None:
            seen.extend(things)
            if seen[-1] < 3:
                agenda.put(0.0, seen[-1] + 1)
            else:
                done.set()

        agenda: Agenda[int] = Agenda(0.001, due)
        agenda.put(0.0, 1)
        await asyncio.wait_for(done.wait(), stretched(10))
        assert seen == [1, 2, 3]

    asyncio.run(live())
