"""What joins a shard to its log and its clock, with a scripted shard."""

import asyncio
import errno
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from ottla.broker.broker_server import BrokerServer
from ottla.broker.coordinators import shard_runner
from ottla.broker.coordinators.shard_runner import ShardRunner
from ottla.broker.replicas import log_reading
from ottla.broker.scheduling.waiting import settled
from ottla.coordinator.shard import (
    CancelTimer,
    Completion,
    CoordinatorRecord,
    Deferred,
    Effect,
    RequestContext,
    Result,
    SetTimer,
)
from ottla.later import Later
from ottla.records import Codec
from ottla.records.batches import sealed
from ottla.replication.replicas import Leadership
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import Message
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import running, topic, write_out
from tests.stalls.bombs import bomb


class Told:
    """A shard that remembers what happened to it."""

    def __init__(self) -> None:
        self.skipped: Counter[str] = Counter()
        self.replayed: list[bytes] = []
        self.expired: list[Hashable] = []
        self.expired_at: list[int] = []

    def replay(self, record: CoordinatorRecord) -> None:
        self.replayed.append(record.key)

    def loaded(self, _: int) -> Result[None]:
        return Result(None)

    def expire(self, key: Hashable, now: int) -> Result[None]:
        self.expired.append(key)
        self.expired_at.append(now)
        return Result(None)


@asynccontextmanager
async def runner_of(
    folder: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[BrokerServer, ShardRunner[Told]]]:
    async with running(folder, settings) as node:
        runner = ShardRunner(node.coordinators, await topic(node, "state"), Told)
        runner.load()
        await until(lambda: runner._shard is not None)
        try:
            yield node, runner
        finally:
            runner.end()


def records(*keys: bytes) -> list[CoordinatorRecord]:
    return [CoordinatorRecord(key, b"value") for key in keys]


def change(runner: ShardRunner[Told], *timers: SetTimer | CancelTimer) -> None:
    runner.perform(lambda _, __: Result(None, timers=list(timers)))


def test_records_are_appended_and_replayed_before_the_reply(tmp_path: Path) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (_, runner):
            assert runner.ask(lambda _, __: Result("done", records(b"a", b"b"))) == "done"
            assert runner.shard.replayed == [b"a", b"b"]
            assert runner.partition.log.end_offset == 2

    asyncio.run(live())


def test_what_was_written_is_there_after_a_reload(tmp_path: Path) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (_, runner):
            runner.ask(lambda _, __: Result("done", records(b"a")))
            runner.ask_lingering(lambda _, __: Result("done", records(b"b")), 1)
            runner.ask(lambda _, __: Result("done", records(b"c")))
            runner.drop(reload=True)
            with pytest.raises(KafkaError) as refused:
                _ = runner.shard
            assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await until(lambda: runner._shard is not None)
            assert runner.shard.replayed == [b"a", b"b", b"c"]

    asyncio.run(live())


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=["not records", "a bomb"])
def test_a_batch_that_cannot_be_read_does_not_keep_a_coordinator_from_loading(
    tmp_path: Path, codec: Codec
) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (node, runner):
            runner.ask(lambda _, __: Result("done", records(b"a")))
            now = node.now_ms()
            if codec is Codec.NONE:
                hostile = sealed(
                    b"?" * 50, 2, last_offset_delta=1, base_timestamp=now, max_timestamp=now
                )
            else:
                hostile = bomb(codec, 8 << 20, now, keyed=True, max_timestamp=now)
            runner.partition.append_own(memoryview(bytearray(hostile)), now)
            runner.ask(lambda _, __: Result("done", records(b"b")))
            runner.drop(reload=True)
            await until(lambda: runner._shard is not None)
            assert runner.shard.replayed == [b"a", b"b"]

    asyncio.run(live())


def test_coordinators_are_loaded_one_after_the_other(tmp_path: Path) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (node, runner):
            async with node.coordinators.loading:
                runner.drop(reload=True)
                other = ShardRunner(node.coordinators, await topic(node, "other"), Told)
                other.load()
                for _ in range(20):
                    await asyncio.sleep(0)
                assert runner._shard is None
                assert other._shard is None
            await until(lambda: runner._shard is not None and other._shard is not None)
            other.drop(reload=True)
            other.end()  # while it waits, or loads
            runner.drop(reload=True)
            await until(lambda: runner._shard is not None)

    asyncio.run(live())


def test_a_log_that_could_not_be_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its groups and transactions have no coordinator until another broker leads them."""

    def broken(*_: object) -> memoryview:
        monkeypatch.undo()
        raise OSError(errno.EIO, "Input/output error")

    async def live() -> None:
        async with runner_of(tmp_path) as (_, runner):
            runner.ask(lambda _, __: Result("done", records(b"a")))
            monkeypatch.setattr(shard_runner, "RELOAD_SECONDS", 0.0)
            monkeypatch.setattr(log_reading, "_read", broken)
            runner.drop(reload=True)
            await until(lambda: runner._shard is not None)
            assert runner.shard.replayed == [b"a"]

    asyncio.run(live())


def test_a_log_that_cannot_be_read_for_a_reason_nobody_thought_of_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_runner, "RELOAD_SECONDS", 0.01)

    def fail(*_: object) -> None:
        raise KeyError("nothing")

    async def live() -> None:
        async with runner_of(tmp_path) as (_, runner):
            runner.ask(lambda _, __: Result("done", records(b"a")))
            with monkeypatch.context() as broken:
                broken.setattr(Told, "replay", fail)
                runner.drop(reload=True)
                await until(lambda: runner._loading is None)
                assert runner._shard is None
            await until(lambda: runner._shard is not None)
            assert runner.shard.replayed == [b"a"]

    asyncio.run(live())


class Asked(Effect, frozen=True):
    """An effect of these tests."""

    name: str


class Executing(ShardRunner[Told]):
    """A runner that remembers what it was asked to do."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.executed: list[Effect] = []

    def execute(self, shard: Told, effect: Effect) -> None:
        self.executed.append(effect)


def test_effects_are_executed_once_their_records_are_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            runner = Executing(node.coordinators, await topic(node, "state"), Told)
            runner.load()
            await until(lambda: runner._shard is not None)
            waiting: list[Callable[[], object]] = []
            with monkeypatch.context() as patched:
                patched.setattr(
                    type(runner.partition),
                    "when_committed",
                    lambda _, __, call: waiting.append(call),
                )
                first, second = Asked("first"), Asked("second")
                runner.ask(lambda *_: Result("done", records(b"a"), effects=[first, second]))
            await asyncio.sleep(0)
            assert runner.executed == []
            waiting.pop(0)()
            assert runner.executed == [], "not inside the call that commits"
            await until(lambda: runner.executed == [first])
            runner.drop(reload=True)
            await until(lambda: runner._shard is not None)
            waiting.pop(0)()
            await asyncio.sleep(0)  # the call that was scheduled
            assert runner.executed == [first], "the shard that asked is gone"
            runner.end()

    asyncio.run(live())


def test_an_effect_that_a_runner_does_not_know_is_an_error(tmp_path: Path) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (_, runner):
            with pytest.raises(TypeError, match="cannot execute Asked"):
                runner.execute(runner.shard, Asked("something"))

    asyncio.run(live())


class Skipping(Told):
    """A shard to which every record is unknown."""

    def replay(self, record: CoordinatorRecord) -> None:
        self.skipped["record type 99"] += 1


def test_records_that_a_shard_skips_are_logged_once_when_it_is_loaded(tmp_path: Path) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (node, runner):
            runner.ask(lambda _, __: Result("done", records(b"a", b"b")))
            other = ShardRunner(node.coordinators, runner.partition, Skipping)
            with capture_logs() as said:
                other.load()
                await until(lambda: other._shard is not None)
            other.end()
            (line,) = [each for each in said if each["log_level"] == "warning"]
            assert (line["unknown"], line["records"]) == ("record type 99", 2)

    asyncio.run(live())


def test_lingering_records_count_at_once_and_are_appended_when_asked_for(tmp_path: Path) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (node, runner):
            for key in (b"a", b"b"):
                runner.ask_lingering(lambda _, __, key=key: Result("done", records(key)), 1)  # type: ignore[misc]  # mypy cannot infer a default
            assert runner.shard.replayed == [b"a", b"b"]
            assert runner.partition.log.end_offset == 0
            assert not write_out(node)
            assert runner.partition.log.end_offset == 2
            assert not node.coordinators.lingering.pending

    asyncio.run(live())


def test_lingering_records_that_are_lost_are_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device")

    async def live() -> None:
        async with runner_of(tmp_path) as (node, runner):
            runner.ask_lingering(lambda _, __: Result("done", records(b"a")), 1)
            with monkeypatch.context() as patched:
                patched.setattr(type(runner.partition), "append_own", full)
                with pytest.raises(KafkaError):
                    runner.ask(lambda _, __: Result("done", records(b"b")))
            assert write_out(node) == {1}
            assert not write_out(node)
            await until(lambda: runner._shard is not None)
            assert runner.shard.replayed == []

    asyncio.run(live())


def full(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_is_full_is_not_told_by_every_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_runner, "SHORTEST_REST_SECONDS", 0.0)

    async def live() -> None:
        async with runner_of(tmp_path) as (node, runner):
            with capture_logs() as said, monkeypatch.context() as patched:
                patched.setattr(node.files, "pwrite", full)
                for _ in range(3):
                    runner.ask_lingering(lambda _, __: Result("done", records(b"a")), 1)
                    assert write_out(node) == {1}
                    await until(lambda: runner._shard is not None)
                    runner.perform(lambda _, __: Result(None, records(b"b")))
                    await until(lambda: runner._shard is not None)
            assert len(said) == 1
            assert said[0]["reason"] == "No space left on device"

    asyncio.run(live())


def test_a_full_disk_does_not_cost_a_shard_that_only_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (node, runner):
            runner.decides_only = True
            runner.ask(lambda _, __: Result("done", records(b"a")))
            shard = runner.shard
            with monkeypatch.context() as patched:
                patched.setattr(node.files, "pwrite", full)
                with pytest.raises(KafkaError) as refused:
                    runner.ask(lambda _, __: Result("done", records(b"b")))
                assert refused.value.code == ErrorCode.NOT_COORDINATOR
                assert runner.shard is shard
            assert runner.ask(lambda _, __: Result("done", records(b"c"))) == "done"
            assert shard.replayed == [b"a", b"c"]
            assert runner.partition.log.end_offset == 2

    asyncio.run(live())


class Writing(Told):
    """A shard that has something to write once it is loaded."""

    loads = 0

    def loaded(self, _: int) -> Result[None]:
        Writing.loads += 1
        return Result(None, records(b"loaded"))


def test_a_shard_that_a_full_disk_refuses_is_not_loaded_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_runner, "SHORTEST_REST_SECONDS", 0.2)

    async def live() -> None:
        async with running(tmp_path) as node:
            runner = ShardRunner(node.coordinators, await topic(node, "state"), Writing)
            with monkeypatch.context() as patched:
                patched.setattr(node.files, "pwrite", full)
                began = time.monotonic()
                runner.load()
                await until(lambda: Writing.loads == 4)
                # The first refusal is followed at once, each other one by a rest.
                assert time.monotonic() - began >= 2 * shard_runner.SHORTEST_REST_SECONDS
                with pytest.raises(KafkaError) as refused:
                    _ = runner.shard
                assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await until(lambda: runner._shard is not None)
            assert runner.shard.replayed == [b"loaded"]
            runner.end()

    asyncio.run(live())


def lose_replicas(node: BrokerServer, runner: ShardRunner[Any]) -> None:
    """Let the partition have two replicas that are needed, and one of them in sync."""
    partition = runner.partition
    partition.get_replicas(
        Leadership(
            node.id,
            node.image.partitions[partition.topic, partition.index],
            [node.id, node.id + 1],
            log_end=partition.log.end_offset,
            high_watermark=partition.high_watermark,
            min_isr=2,
            lag=10,
            now=0,
        )
    )


@pytest.mark.parametrize("decides_only", [True, False])
def test_a_write_that_too_few_replicas_would_get_is_refused(
    tmp_path: Path, decides_only: bool
) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (node, runner):
            runner.decides_only = decides_only
            runner.ask(lambda _, __: Result("done", records(b"a")))
            lose_replicas(node, runner)
            with pytest.raises(KafkaError) as refused:
                runner.ask(lambda _, __: Result("done", records(b"b")))
            assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert runner.partition.log.end_offset == 1
            # A shard that may have changed by deciding is read again, the others continue.
            assert (runner._shard is not None) == decides_only
            await until(lambda: runner._shard is not None)
            assert runner.shard.replayed == [b"a"]
            assert runner.ask(lambda _, __: Result("read")) == "read"

    asyncio.run(live())


def test_offsets_that_too_few_replicas_would_get_do_not_cost_the_shard(tmp_path: Path) -> None:
    """Consumers commit all the while, and reading a large partition again takes seconds."""

    async def live() -> None:
        async with running(tmp_path, {"offsets.topic.num.partitions": "1"}) as node:
            await topic(node, "t")
            await node.groups.ensure_topic()
            (runner,) = node.groups
            await until(lambda: runner._shard is not None)
            lose_replicas(node, runner)
            shard = runner.shard
            assert commit(node, 7) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert runner.shard is shard

    asyncio.run(live())


def commit(node: BrokerServer, offset: int) -> ErrorCode:
    """Commit an offset of partition t-0 for the group g."""
    place = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[place])],
    )
    answer = node.groups.ask_lingering(
        "g",
        lambda shard, now: shard.handle_offset_commit(request, RequestContext(9), now),
        lambda code, _: OffsetCommitResponse(throttle_time_ms=code),
        1,
    )
    assert isinstance(answer, OffsetCommitResponse)
    codes = [part.error_code for each in answer.topics for part in each.partitions]
    return ErrorCode(codes[0] if codes else answer.throttle_time_ms)


def committed(node: BrokerServer) -> int:
    """What the group g has committed for t-0."""
    (runner,) = node.groups
    asked = OffsetFetchRequestGroup(group_id="g", topics=None)
    answer = runner.ask(lambda shard, now: shard.handle_offset_fetch(asked, RequestContext(9), now))
    assert isinstance(answer, OffsetFetchResponseGroup)
    return answer.topics[0].partitions[0].committed_offset


def test_commits_to_a_full_disk_cost_the_shard_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        async with running(tmp_path, {"offsets.topic.num.partitions": "1"}) as node:
            await topic(node, "t")
            await node.groups.ensure_topic()
            (runner,) = node.groups
            await until(lambda: runner._shard is not None)
            assert commit(node, 7) == ErrorCode.NONE
            assert not write_out(node)
            with monkeypatch.context() as patched:
                patched.setattr(node.files, "pwrite", full)
                commit(node, 8)
                assert write_out(node) == {1}, "this one has no answer"
                await until(lambda: runner._shard is not None)
                shard = runner.shard
                for offset in range(9, 20):
                    assert commit(node, offset) == ErrorCode.NOT_COORDINATOR
                    assert not write_out(node)
                assert runner.shard is shard
                assert committed(node) == 7
            assert commit(node, 20) == ErrorCode.NONE
            assert runner.may_linger
            assert committed(node) == 20

    asyncio.run(live())


def test_replies_that_were_held_for_too_long_take_no_memory(tmp_path: Path) -> None:
    """Replicas may be missing for hours, and clients ask again and again."""

    async def live() -> None:
        async with runner_of(tmp_path, {"offsets.commit.timeout.ms": "1"}) as (node, runner):
            lose_replicas(node, runner)
            runner.perform(lambda _, __: Result(None, records(b"by a timer")))
            asked = [runner.ask(lambda _, __: Result("read")) for _ in range(1000)]
            for answer in asked:
                with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
                    await settled(answer)
            assert runner.partition.waiting == 0

    asyncio.run(live())


def test_a_parked_request_is_answered_once_it_is_completed_or_the_shard_goes(
    tmp_path: Path,
) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (_, runner):
            first = runner.ask(lambda _, __: Result[Message](Deferred(1)))
            second = runner.ask(lambda _, __: Result[Message](Deferred(2)))
            assert isinstance(first, Later)
            assert isinstance(second, Later)
            reply = Message()
            runner.perform(lambda _, __: Result(None, completions=[Completion(1, reply)]))
            assert await settled(first) is reply
            runner.drop(reload=False)
            with pytest.raises(KafkaError) as refused:
                await settled(second)
            assert refused.value.code == ErrorCode.NOT_COORDINATOR

    asyncio.run(live())


def test_a_timer_that_is_put_off_fires_once_and_not_before_its_time(tmp_path: Path) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (node, runner):
            now = node.now_ms()
            change(runner, *(SetTimer("session", delay) for delay in (1, 20, 40)))
            change(runner, SetTimer("last", 60))
            await until(lambda: "last" in runner.shard.expired)
            assert runner.shard.expired == ["session", "last"]
            assert runner.shard.expired_at[0] >= now + 40
            assert not runner._timers

    asyncio.run(live())


def test_a_timer_that_is_put_forward_fires_early(tmp_path: Path) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (_, runner):
            change(runner, SetTimer("session", 3_600_000))
            change(runner, SetTimer("session", 0))
            await until(lambda: runner.shard.expired == ["session"])

    asyncio.run(live())


def test_a_timer_that_is_cancelled_never_fires(tmp_path: Path) -> None:
    async def live() -> None:
        async with runner_of(tmp_path) as (_, runner):
            change(runner, SetTimer("gone", 0), SetTimer("put off", 0))
            change(runner, CancelTimer("gone"), CancelTimer("never set"))
            change(runner, SetTimer("put off", 5), CancelTimer("put off"))
            change(runner, SetTimer("last", 10))
            await until(lambda: runner.shard.expired)
            assert runner.shard.expired == ["last"]

    asyncio.run(live())
