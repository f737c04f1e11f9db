"""The timers of coordinators go by elapsed time, and by the lease."""

import asyncio
import time
from pathlib import Path

import pytest

from ottla.broker.context import clock as clock_module
from ottla.broker.coordinators import shard_timers
from ottla.broker.coordinators.shard_runner import ShardRunner
from ottla.coordinator.shard import CancelTimer, Result, SetTimer
from ottla.coordinator.transactions.records import record_of
from ottla.coordinator.transactions.state import (
    LAST_CLIENT_EPOCH,
    Transaction,
    TransactionPartition,
    TransactionState,
)
from ottla.coordinator.transactions.timers import TransactionTimer, TransactionTimerKind
from ottla.metadata.clock import boottime
from ottla.replication.lease import Lease
from ottla.wire.errors import KafkaError
from ottla.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from testkit.waiting import stretched
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import running, topic
from tests.broker.test_shard_runner import Told, change, runner_of


class WatchedLease(Lease):
    """A lease that counts how often it was asked for."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def held(self, now: float) -> bool:
        self.asked += 1
        return super().held(now)

    async def until_asked(self, times: int) -> None:
        """Wait until it was asked for so often from now on."""
        last = self.asked + times
        await until(lambda: self.asked >= last)


class Clock:
    """A wall clock that can be set."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.ahead_ms = 0
        patched.setattr(
            clock_module.Clock, "now_ms", lambda _: time.time_ns() // 1_000_000 + self.ahead_ms
        )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


HOUR = 3_600_000


@pytest.mark.parametrize("step", [-HOUR, -30_000])
def test_a_clock_that_is_set_back_does_not_delay_a_timer(
    tmp_path: Path, clock: Clock, step: int
) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (_, runner):
            began = time.monotonic()
            change(runner, SetTimer("session", 20))
            clock.ahead_ms = step
            await until(lambda: runner.shard.expired == ["session"])
            assert time.monotonic() - began < stretched(5)

    asyncio.run(live())


@pytest.mark.parametrize("step", [HOUR, 30_000])
def test_a_clock_that_is_set_forward_does_not_fire_a_timer(
    tmp_path: Path, clock: Clock, step: int
) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (_, runner):
            change(runner, SetTimer("session", HOUR))
            change(runner, SetTimer("first", 10))
            clock.ahead_ms = step
            change(runner, SetTimer("last", 20))
            await until(lambda: "last" in runner.shard.expired)
            assert runner.shard.expired == ["first", "last"]

    asyncio.run(live())


def test_a_session_that_is_kept_alive_does_not_end_because_the_clock_is_set(
    tmp_path: Path, clock: Clock
) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (_, runner):
            for step in (0, HOUR, -HOUR, 10 * HOUR, -10 * HOUR):
                clock.ahead_ms = step
                change(runner, SetTimer("session", 2_000))
                change(runner, SetTimer(step, 5))
                await until(lambda step=step: step in runner.shard.expired)  # type: ignore[misc]  # mypy cannot infer a default
            assert "session" not in runner.shard.expired
            await until(lambda: "session" in runner.shard.expired)

    asyncio.run(live())


def test_no_timer_fires_while_the_lease_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another broker may lead by then: nobody is expelled, and nothing written, in its place."""
    monkeypatch.setattr(shard_timers, "WITHOUT_LEASE_SECONDS", 0.01)
    monkeypatch.setattr(shard_timers, "SECOND_WAIT_SECONDS", 1.0)

    async def live() -> None:
        async with runner_of(tmp_path) as (node, runner):
            lease = WatchedLease()
            monkeypatch.setattr(node.state, "lease", lease)
            change(runner, SetTimer("session", 1), SetTimer("gone", 1), SetTimer("back", 1))
            await lease.until_asked(9)
            assert runner._shard is not None
            assert runner._shard.expired == []
            change(runner, CancelTimer("gone"))
            lease.answered(boottime(), 60)
            await lease.until_asked(2)
            assert runner.shard.expired == [], "who was refused has time to come back"
            change(runner, SetTimer("back", 60_000))
            await until(lambda: runner.shard.expired == ["session"])
            change(runner, CancelTimer("back"))
            assert not runner._timers

    asyncio.run(live())


def test_who_was_refused_shortly_before_its_timer_is_due_has_time_to_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is back when the timer is due, but the last heartbeat was refused without it."""
    monkeypatch.setattr(shard_timers, "SECOND_WAIT_SECONDS", 0.5)

    async def live() -> None:
        async with runner_of(tmp_path) as (node, runner):
            lease = WatchedLease()
            change(runner, SetTimer("back", 50), SetTimer("dead", 50))
            monkeypatch.setattr(node.state, "lease", lease)
            with pytest.raises(KafkaError, match="lease of this broker has expired"):
                runner.ask(lambda _, __: Result(None, timers=[SetTimer("back", 60_000)]))
            lease.answered(boottime(), 60)
            await lease.until_asked(2)
            assert runner.shard.expired == []
            change(runner, SetTimer("back", 60_000))
            await until(lambda: runner.shard.expired == ["dead"])
            change(runner, CancelTimer("back"))

    asyncio.run(live())


def test_what_clients_said_while_the_loop_stood_still_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat that waits in its socket came in time, though the timer is handled first."""
    monkeypatch.setattr(shard_timers, "LATE_SECONDS", 0.05)
    monkeypatch.setattr(shard_timers, "SECOND_WAIT_SECONDS", 0.5)

    async def live() -> None:
        async with runner_of(tmp_path) as (_, runner):
            _, theirs = await asyncio.open_connection(*await heartbeats_to(runner))
            change(runner, SetTimer("alive", 20), SetTimer("dead", 20))
            theirs.write(b"heartbeat")
            await theirs.drain()
            # Not a wait: the blocked loop is what is tested.
            time.sleep(0.2)  # noqa: ASYNC251
            await until(lambda: "dead" in runner.shard.expired)
            assert "alive" not in runner.shard.expired
            change(runner, CancelTimer("alive"))
            theirs.close()

    asyncio.run(live())


def test_a_timeout_that_waits_for_a_producer_id_does_not_hit_the_next_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        async with running(tmp_path, {"transaction.state.log.num.partitions": "1"}) as node:
            await topic(node, "t")
            await node.transactions.ensure_topic()
            (runner,) = node.transactions
            await until(lambda: runner._shard is not None)
            opened = Transaction(
                transactional_id="id",
                producer_id=5,
                producer_epoch=LAST_CLIENT_EPOCH,
                timeout_ms=60_000,
                state=TransactionState.ONGOING,
                partitions=frozenset({TransactionPartition("t", 0)}),
                start_ms=node.now_ms(),
                last_update_ms=node.now_ms(),
            )
            key = TransactionTimer(TransactionTimerKind.TRANSACTION_TIMEOUT, "id")
            runner.perform(lambda *_: Result(None, records=[record_of(opened)]))
            given: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            monkeypatch.setattr(node.coordinators, "new_producer_id", lambda: given)
            runner._expire(key)
            # Its producer ends it meanwhile, and begins another one.
            runner.perform(
                lambda *_: Result(None, records=[record_of(opened)], timers=[SetTimer(key, 60_000)])
            )
            given.set_result(6)
            await until(lambda: not list(node.background))
            found = runner.ask(lambda shard, _: shard.handle_describe("id"))
            assert isinstance(found, DescribedTransaction)
            assert found.transaction_state == "Ongoing"
            runner.perform(lambda *_: Result(None, timers=[CancelTimer(key)]))
            runner._expire(key)
            await until(lambda: not list(node.background))
            found = runner.ask(lambda shard, _: shard.handle_describe("id"))
            assert isinstance(found, DescribedTransaction)
            assert found.transaction_state != "Ongoing", "the same timer ends it where it fires"

    asyncio.run(live())


async def heartbeats_to(runner: ShardRunner[Told]) -> tuple[str, int]:
    """An address; writing to it keeps the session "alive"."""

    async def heard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            change(runner, SetTimer("alive", 60_000))
        writer.close()

    server = await asyncio.start_server(heard, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    return host, port


def test_a_timer_that_is_always_late_fires_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_timers, "LATE_SECONDS", 0.005)
    monkeypatch.setattr(shard_timers, "SECOND_WAIT_SECONDS", 0.005)

    async def live() -> None:
        async with running(tmp_path) as node:
            runner = ShardRunner(node.coordinators, await topic(node, "state"), Told)
            runner.load()
            await until(lambda: runner._shard is not None)
            runner.perform(lambda *_: Result(None, timers=[SetTimer("session", 0)]))
            while not runner.shard.expired:
                # Not a wait: the blocked loop is what is tested.
                time.sleep(0.02)  # noqa: ASYNC251
                await asyncio.sleep(0)
            runner.end()

    asyncio.run(asyncio.wait_for(live(), stretched(20)))
