"""Flushes of many logs share threads, and each gets its own answer."""

import asyncio
import errno
from collections.abc import Sequence
from threading import Event, Thread

import pytest

from ottla.broker.scheduling import flusher
from ottla.broker.scheduling.flusher import THREADS, TOGETHER, Flusher
from ottla.log.flush import Flush, run_together
from ottla.log.storage.files import Files
from testkit.waiting import stretched
from testkit.waiting import until_on_loop as until


class Runs:
    """What the threads were given; they continue when they are let."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, may_go: bool = True) -> None:
        self.groups: list[list[Flush]] = []
        self.may_go = Event()
        if may_go:
            self.may_go.set()
        monkeypatch.setattr(flusher, "run_together", self._run)

    def _run(self, flushes: Sequence[Flush]) -> None:
        self.groups.append(list(flushes))
        assert self.may_go.wait(stretched(10))
        run_together(flushes)


def flushes(count: int) -> list[Flush]:
    return [Flush(Files(), end_offset=1) for _ in range(count)]


def test_what_comes_in_one_turn_goes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(monkeypatch)

    async def live() -> None:
        its = Flusher()
        await asyncio.gather(*(its.flushed(flush) for flush in flushes(3)))
        await its.flushed(*flushes(1))

    asyncio.run(live())
    assert [len(group) for group in runs.groups] == [3, 1]
    assert all(flush.done for group in runs.groups for flush in group)


def test_what_comes_while_all_threads_are_busy_shares_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = Runs(monkeypatch, may_go=False)

    async def live() -> None:
        its = Flusher()
        answers = []
        for number in range(THREADS):
            answers.append(its.flushed(*flushes(1)))
            await until(lambda: len(runs.groups) == number + 1)  # noqa: B023 (awaited here)
        answers += [its.flushed(flush) for flush in flushes(TOGETHER + 2)]
        await asyncio.sleep(0)
        assert len(runs.groups) == THREADS
        runs.may_go.set()
        await asyncio.gather(*answers)

    asyncio.run(live())
    assert sorted(len(group) for group in runs.groups) == [1] * THREADS + [2, TOGETHER]


def test_one_that_fails_is_not_the_failure_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(monkeypatch)

    async def live() -> tuple[BaseException | None, BaseException | None]:
        its = Flusher()
        good, bad = flushes(2)
        bad.add_written([-1])
        return await asyncio.gather(its.flushed(good), its.flushed(bad), return_exceptions=True)

    fine, problem = asyncio.run(live())
    assert fine is None
    assert isinstance(problem, OSError)
    assert problem.errno == errno.EBADF
    assert len(runs.groups) == 1


def test_a_mistake_reaches_everyone_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: Sequence[Flush]) -> None:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr(flusher, "run_together", run)

    async def live() -> None:
        its = Flusher()
        both = [its.flushed(flush) for flush in flushes(2)]
        found = await asyncio.gather(*both, return_exceptions=True)
        assert [type(problem) for problem in found] == [ValueError, ValueError]

    asyncio.run(live())


def test_a_flush_waits_for_a_thread_where_the_system_gives_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flusher, "THREAD_AGAIN_SECONDS", 0.01)
    refused: list[Thread] = []

    def refuse(thread: Thread) -> None:
        refused.append(thread)
        raise RuntimeError("can't start new thread")

    async def live() -> None:
        its = Flusher()
        first, second = flushes(2)
        with monkeypatch.context() as patched:
            patched.setattr(Thread, "start", refuse)
            answer = its.flushed(first)
            await until(lambda: len(refused) > 1)
            assert not answer.done()
        await asyncio.wait_for(answer, stretched(10))
        await asyncio.wait_for(its.flushed(second), stretched(10))
        assert first.done
        assert second.done

    asyncio.run(live())
