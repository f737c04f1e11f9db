"""A task of the broker that fails is logged and continues; none ends in silence."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from ottla.broker.broker_server import BrokerServer
from ottla.broker.context.broker_state import BrokerState
from ottla.broker.context.dynamic_config import DynamicConfig
from ottla.broker.coordinators import shard_runner
from ottla.broker.metadata.fencing import FencingProbe
from ottla.broker.metadata.topics import create_topic
from ottla.broker.replicas.partition import Partition
from ottla.broker.replication import alter_partition
from ottla.broker.replication.link_security import LinkSecurity
from ottla.broker.replication.peers import Peers
from ottla.broker.scheduling import supervised
from ottla.broker.scheduling.supervised import SupervisedTask
from ottla.config import BrokerConfig
from ottla.metadata.image import Image
from ottla.metadata.store import Op
from ottla.metadata.topics import NewTopic
from ottla.replication.lease import Lease
from ottla.replication.replicas import Leadership
from ottla.security.listeners import link_settings
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import running, topic, write
from tests.broker.others import beside_another
from tests.broker.test_follower_fetches import WRITTEN, fetch, led


class UnexpectedError(Exception):
    """What nobody expects there."""


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    init = SupervisedTask.__init__

    def quick(self: SupervisedTask, name: str, work: Any, pause_seconds: float = 0.01) -> None:
        init(self, name, work, pause_seconds)

    monkeypatch.setattr(SupervisedTask, "__init__", quick)
    monkeypatch.setattr(supervised, "LONGEST_PAUSE_SECONDS", 0.02)


class Failing:
    """Fails at its first calls, then does what it stands for."""

    def __init__(self, real: Callable[..., Any], failures: int = 2) -> None:
        self._real = real
        self._left = failures
        self.calls = 0

    def __call__(self, *args: Any, **named: Any) -> Any:
        self.calls += 1
        if self._left:
            self._left -= 1
            raise UnexpectedError("injected")
        return self._real(*args, **named)


def failures(logged: list[Any], task: str) -> list[Any]:
    return [
        line
        for line in logged
        if line["event"] == "background task failed; retrying" and line["task"] == task
    ]


def run(live: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await live()

    asyncio.run(main())


# The task itself ---------------------------------------------------------------------------


def test_work_that_fails_is_logged_and_started_again() -> None:
    async def live() -> None:
        done = asyncio.Event()

        async def work() -> None:
            attempt()
            done.set()

        attempt = Failing(lambda: None)
        task = SupervisedTask("work", work)
        with capture_logs() as logged:
            task.begin()
            await task.settled()
            assert task.running
            await done.wait()
            await until(lambda: not task.running)
        assert len(failures(logged, "work")) == 2
        assert all(line["exc_info"] for line in failures(logged, "work"))

    run(live)


def test_work_that_returned_can_begin_again_and_runs_once_at_a_time() -> None:
    async def live() -> None:
        begun, may_end = [], asyncio.Event()

        async def work() -> None:
            begun.append(1)
            await may_end.wait()

        task = SupervisedTask("work", work)
        task.begin()
        task.begin()
        await until(lambda: begun)
        may_end.set()
        await task.settled()
        assert (len(begun), task.running) == (1, False)
        task.begin()
        await task.settled()
        assert len(begun) == 2

    run(live)


def test_a_cancelled_future_that_the_work_waits_for_does_not_end_it() -> None:
    async def live() -> None:
        rounds = []

        async def work() -> None:
            rounds.append(1)
            if len(rounds) == 1:
                never = asyncio.get_running_loop().create_future()
                never.cancel()
                await never

        task = SupervisedTask("work", work)
        with capture_logs() as logged:
            task.begin()
            await until(lambda: len(rounds) == 2 and not task.running)
        assert len(failures(logged, "work")) == 1

    run(live)


def test_work_that_is_stopped_stays_so() -> None:
    async def live() -> None:
        async def work() -> None:
            await asyncio.Event().wait()

        task = SupervisedTask("work", work)
        task.begin()
        await asyncio.sleep(0)
        with capture_logs() as logged:
            await task.stop()
            task.begin()
        assert not task.running
        assert not logged

    run(live)


# Each task of a broker that must not end ----------------------------------------------------


def test_the_controller_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def live() -> None:
        async with beside_another(tmp_path) as (node, _):
            controller = node.controller._controller
            attempt = Failing(controller.next_commit)
            monkeypatch.setattr(controller, "next_commit", attempt)
            with capture_logs() as logged:
                await create_topic(node.metadata, NewTopic("t", assignment={0: [node.id]}))
                await until(lambda: attempt.calls > 2 and not node.controller._work.running)
            assert len(failures(logged, "controller")) == 2

    run(live)


def test_leaders_are_claimed_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, "t")
            claims = node.replica_manager.claims
            attempt = Failing(claims._decide)
            monkeypatch.setattr(claims, "_decide", attempt)
            with capture_logs() as logged:
                claims._due["t", 0] = None
                claims._begin()
                await until(lambda: not claims._due and not claims._work.running)
            assert len(failures(logged, "leader claims")) == 2

    run(live)


def test_followers_are_watched_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alter_partition, "LOOKS_IN_A_LAG", 10_000)

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            attempt = Failing(lambda now: None)
            partition.leadership = _Watched(attempt)  # type: ignore[assignment]
            with capture_logs() as logged:
                await until(lambda: attempt.calls > 3)
            partition.leadership = None
            assert len(failures(logged, "ISR watch")) == 2

    run(live)


class _Watched:
    def __init__(self, passes: Callable[[float], None]) -> None:
        self.passes = passes

    def propose(self, brokers: object, now: float) -> None:
        return None


def test_isr_changes_are_committed_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proposal that met an unexpected failure has an unknown outcome, not none for ever."""

    async def live() -> None:
        async with led(tmp_path) as (node, partition, leadership):
            changes = node.replica_manager.alter_partition

            async def fail(ops: list[Op]) -> None:
                raise UnexpectedError("injected")

            with monkeypatch.context() as patched, capture_logs() as logged:
                patched.setattr(node.metadata.store, "commit", fail)
                fetch(node, partition, WRITTEN)
                await until(lambda: failures(logged, "ISR changes"))
            assert leadership._in_flight is None
            await _until_in_sync(node, partition, leadership)
            assert not changes._due

    run(live)


async def _until_in_sync(node: BrokerServer, partition: Partition, leadership: Leadership) -> None:
    def look() -> bool:
        node.replica_manager.alter_partition.look_at(partition)
        return not leadership.undecided

    await until(look)


def test_the_fencing_probe_continues() -> None:
    async def live() -> None:
        state = BrokerState(1)
        state.epoch = 1
        attempt = Failing(lambda now: True)
        state.lease = _HeldLease(attempt)
        config = DynamicConfig(BrokerConfig.from_static({}))
        peers = Peers(config, Image(), LinkSecurity(link_settings(config.current)))
        probe = FencingProbe(state, Image(), peers, _nobody)
        with capture_logs() as logged:
            probe.watch(0.06)
            await until(lambda: attempt.calls > 3)
            await probe.stop()
        assert len(failures(logged, "fencing probe")) == 2

    run(live)


class _HeldLease(Lease):
    __slots__ = ("_asked",)

    def __init__(self, asked: Callable[[float], bool]) -> None:
        super().__init__()
        self._asked = asked

    def held(self, now: float) -> bool:
        return self._asked(now)


def _nobody(reason: str, *, is_cut_off: bool) -> None:
    raise AssertionError(reason)


def test_flushes_continue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            write(partition)
            manager = node.log_manager
            monkeypatch.setattr(manager, "_rest", Failing(manager._rest))
            with capture_logs() as logged:
                manager._flush_due(partition, 1e9)
                await until(lambda: partition.log.recovery_point == partition.log.end_offset)
            assert len(failures(logged, "flushes")) == 2

    run(live)


def test_expired_tokens_are_removed_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "delegation.token.secret.key": "secret",
        "delegation.token.expiry.check.interval.ms": "10",
    }
    attempt = Failing(lambda image: [])
    monkeypatch.setattr("ottla.broker.metadata.delegation_tokens.tokens_of", attempt)

    async def live() -> None:
        with capture_logs() as logged:
            async with running(tmp_path, settings):
                await until(lambda: attempt.calls > 3)
        assert len(failures(logged, "delegation tokens")) == 2

    run(live)


def test_a_change_is_applied_though_acting_on_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            attempt = Failing(node._publisher.learned)
            monkeypatch.setattr(node._publisher, "learned", attempt)
            with capture_logs() as logged:
                await topic(node, "t")
            assert "failed to act on a metadata change" in [line["event"] for line in logged]
            assert node.partitions.find("t", 0).log.end_offset == 0

    run(live)


def test_a_coordinator_whose_timer_failed_is_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_runner, "SHORTEST_REST_SECONDS", 0.0)

    async def live() -> None:
        async with running(tmp_path, {"offsets.topic.num.partitions": "1"}) as node:
            await node.auto_topic_creation.create(["__consumer_offsets"])
            runner = await _loaded_runner(node)
            shard = runner._shard

            def fail(shard: object, now: int) -> Any:
                raise UnexpectedError("injected")

            with capture_logs() as logged:
                runner.perform(fail)
                await until(lambda: runner._shard is not None and runner._shard is not shard)
            (line,) = [each for each in logged if each["event"].startswith("coordinator failed")]
            assert line["exc_info"]

    run(live)


async def _loaded_runner(node: BrokerServer) -> Any:
    def find() -> bool:
        return any(each._shard is not None for each in node.groups._runners.values())

    await until(find)
    (runner,) = node.groups._runners.values()
    return runner
