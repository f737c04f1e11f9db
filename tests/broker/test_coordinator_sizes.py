"""A coordinator whose partition takes only small batches: one refusal, and nothing else happens."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from ottla.broker.broker_server import BrokerServer
from ottla.broker.coordinators.group_coordinator import GroupRunner
from ottla.broker.coordinators.shard_runner import ShardRunner
from ottla.broker.coordinators.transaction_coordinator import TransactionRunner
from ottla.broker.metadata.topics import delete_topic
from ottla.broker.scheduling.waiting import settled
from ottla.coordinator.shard import RequestContext, Result
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.describe_transactions import TransactionState
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import running, topic, write_out
from tests.broker.test_shard_runner import Told, lose_replicas, records

LIMIT = 400
PARTITIONS = 30


@asynccontextmanager
async def small_batches(
    folder: Path, **settings: str
) -> AsyncIterator[tuple[BrokerServer, GroupRunner]]:
    """A broker whose topics take small batches, with the topic t."""
    given = {
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "message.max.bytes": str(LIMIT),
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    async with running(folder, given) as node:
        await topic(node, "t", PARTITIONS)
        await node.groups.ensure_topic()
        (runner,) = node.groups
        await until(lambda: runner._shard is not None)
        shard = runner.shard
        yield node, runner
        assert runner._shard is shard, "the shard was read again"


def commit(
    node: BrokerServer,
    group: str,
    *partitions: int,
    offset: int = 7,
    metadata: str = "",
    retention: int = -1,
) -> set[int]:
    """Commit an offset for each of the partitions; the error codes."""
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        retention_time_ms=retention,
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=metadata
                    )
                    for index in partitions
                ],
            )
        ],
    )
    answer = node.groups.ask_lingering(
        group,
        lambda shard, now: shard.handle_offset_commit(request, RequestContext(9), now),
        lambda code, _: OffsetCommitResponse(throttle_time_ms=code),
        1,
    )
    assert isinstance(answer, OffsetCommitResponse)
    return {part.error_code for each in answer.topics for part in each.partitions}


def offsets(runner: GroupRunner, group: str) -> OffsetFetchResponseGroup:
    """All offsets of a group."""
    asked = OffsetFetchRequestGroup(group_id=group, topics=None)
    answer = runner.ask(lambda shard, now: shard.handle_offset_fetch(asked, RequestContext(9), now))
    assert isinstance(answer, OffsetFetchResponseGroup)
    return answer


def committed(runner: GroupRunner, group: str) -> set[int]:
    """The partitions of t that a group has an offset for."""
    found = offsets(runner, group).topics
    return {part.partition_index for each in found for part in each.partitions}


def test_a_large_commit_does_not_fail_those_that_share_its_turn(tmp_path: Path) -> None:
    async def live() -> None:
        async with small_batches(tmp_path) as (node, runner):
            for number in range(10):
                assert commit(node, f"g{number}", 0) == {ErrorCode.NONE}
            assert commit(node, "large", 0, metadata="m" * LIMIT) == {
                ErrorCode.UNKNOWN_SERVER_ERROR
            }
            for number in range(10, 20):
                assert commit(node, f"g{number}", 0) == {ErrorCode.NONE}
            assert not write_out(node), "each of them is written"
            for number in range(20):
                assert committed(runner, f"g{number}") == {0}
            assert committed(runner, "large") == set()

    asyncio.run(live())


def test_offsets_that_expire_together_expire_though_they_are_many(tmp_path: Path) -> None:
    async def live() -> None:
        settings = {"offsets_retention_check_interval_ms": "50"}
        async with small_batches(tmp_path, **settings) as (node, runner):
            for index in range(PARTITIONS):
                assert commit(node, "old", index, retention=0) == {ErrorCode.NONE}
            assert commit(node, "young", 0) == {ErrorCode.NONE}
            assert not write_out(node)
            await until(lambda: not committed(runner, "old"))
            assert committed(runner, "young") == {0}

    asyncio.run(live())


def test_the_offsets_of_a_deleted_topic_go_though_they_are_many(tmp_path: Path) -> None:
    async def live() -> None:
        async with small_batches(tmp_path) as (node, runner):
            for index in range(PARTITIONS):
                assert commit(node, "g", index) == {ErrorCode.NONE}
            assert not write_out(node)
            await delete_topic(node.metadata, "t")
            await until(lambda: not committed(runner, "g"))

    asyncio.run(live())


def test_groups_and_offsets_are_deleted_though_they_are_many(tmp_path: Path) -> None:
    async def live() -> None:
        async with small_batches(tmp_path) as (node, runner):
            for index in range(PARTITIONS):
                for group in ("g", "offsets"):
                    assert commit(node, group, index) == {ErrorCode.NONE}
            (result,) = await settled(
                runner.ask(
                    lambda shard, now: shard.handle_delete_groups(["g"], RequestContext(2), now)
                )
            )
            assert isinstance(result, DeletableGroupResult)
            assert result.error_code == ErrorCode.NONE
            assert committed(runner, "g") == set()
            request = OffsetDeleteRequest(
                group_id="offsets",
                topics=[
                    OffsetDeleteRequestTopic(
                        name="t",
                        partitions=[
                            OffsetDeleteRequestPartition(partition_index=index)
                            for index in range(PARTITIONS)
                        ],
                    )
                ],
            )
            answer = await settled(
                runner.ask(
                    lambda shard, now: shard.handle_offset_delete(request, RequestContext(0), now)
                )
            )
            assert isinstance(answer, OffsetDeleteResponse)
            assert {part.error_code for part in answer.topics[0].partitions} == {ErrorCode.NONE}
            assert committed(runner, "offsets") == set()

    asyncio.run(live())


def test_too_few_replicas_cost_no_group_its_members(tmp_path: Path) -> None:
    """What would have to be written is refused; a bystander in the same partition stays."""

    async def live() -> None:
        settings = {"message_max_bytes": "1000000", "group_initial_rebalance_delay_ms": "0"}
        async with small_batches(tmp_path, **settings) as (node, runner):
            bystander, joining = await joined(runner, "bystander"), await joined(runner, "group")
            assert (await synced(runner, "bystander", bystander)).error_code == ErrorCode.NONE
            lose_replicas(node, runner)
            new = await settled(
                runner.ask(
                    lambda shard, now: shard.handle_join_group(
                        join_request("new", "", 6_000), RequestContext(9), now
                    )
                )
            )
            assert new.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            refused = await synced(runner, "group", joining)
            assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            for group, member, expected in (
                ("bystander", bystander, ErrorCode.NONE),
                ("group", joining, ErrorCode.REBALANCE_IN_PROGRESS),
            ):
                request = HeartbeatRequest(
                    group_id=group, generation_id=member.generation_id, member_id=member.member_id
                )
                answer = runner.ask(
                    lambda shard, now, request=request: shard.handle_heartbeat(  # type: ignore[misc]  # mypy cannot infer a default
                        request, RequestContext(4), now
                    )
                )
                assert isinstance(answer, HeartbeatResponse)
                assert answer.error_code == expected

    asyncio.run(live())


def join_request(group: str, member_id: str, session_ms: int) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


async def joined(runner: GroupRunner, group: str) -> JoinGroupResponse:
    """Be the only member of a new group's first generation."""
    member_id = ""
    while True:
        request = join_request(group, member_id, 60_000)
        reply = await settled(
            runner.ask(
                lambda shard, now, request=request: shard.handle_join_group(  # type: ignore[misc]  # mypy cannot infer a default
                    request, RequestContext(9), now
                )
            )
        )
        assert isinstance(reply, JoinGroupResponse)
        if reply.error_code == ErrorCode.NONE:
            return reply
        assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
        member_id = reply.member_id


async def synced(runner: GroupRunner, group: str, member: JoinGroupResponse) -> SyncGroupResponse:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=member.generation_id,
        member_id=member.member_id,
        protocol_type="consumer",
        protocol_name="range",
    )
    reply = await settled(
        runner.ask(lambda shard, now: shard.handle_sync_group(request, RequestContext(5), now))
    )
    assert isinstance(reply, SyncGroupResponse)
    return reply


def test_deletions_in_several_batches_are_there_after_a_restart(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path, {"message.max.bytes": str(LIMIT)}) as node:
            runner = ShardRunner(node.coordinators, await topic(node, "state"), Told)
            runner.load()
            await until(lambda: runner._shard is not None)
            keys = [b"%030d" % number for number in range(50)]
            divided = Result("done", records(*keys), is_atomic=False)
            assert runner.ask(lambda *_: divided) == "done"
            assert runner.shard.replayed == keys
            assert runner.partition.log.end_offset == len(keys)
            runner.drop(reload=True)
            await until(lambda: runner._shard is not None)
            assert runner.shard.replayed == keys
            runner.end()

    asyncio.run(live())


def test_a_transaction_with_too_many_partitions_is_refused_and_can_be_ended(tmp_path: Path) -> None:
    async def live() -> None:
        async with small_batches(tmp_path) as (node, _):
            await node.transactions.ensure_topic()
            (runner,) = node.transactions
            await until(lambda: runner._shard is not None)
            shard = runner.shard
            producers = {name: await initialized(runner, name) for name in ("large", "small")}

            def add(name: str, partitions: list[int]) -> int:
                question = AddPartitionsToTxnTransaction(
                    transactional_id=name,
                    producer_id=producers[name].producer_id,
                    producer_epoch=producers[name].producer_epoch,
                    topics=[AddPartitionsToTxnTopic(name="t", partitions=partitions)],
                )
                answer = runner.ask(
                    lambda shard, now: shard.handle_add_partitions(question, RequestContext(5), now)
                )
                assert isinstance(answer, AddPartitionsToTxnResult)
                (code,) = {
                    part.partition_error_code
                    for part in answer.topic_results[0].results_by_partition
                }
                return code

            assert add("large", list(range(10))) == ErrorCode.NONE
            assert add("small", [0]) == ErrorCode.NONE
            assert add("large", list(range(1000))) == ErrorCode.UNKNOWN_SERVER_ERROR
            assert add("large", list(range(11))) == ErrorCode.NONE
            for name, producer in producers.items():
                request = EndTxnRequest(
                    transactional_id=name,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    committed=True,
                )
                reply = await runner.ask_with_producer_id(
                    lambda shard, now, new, request=request: shard.handle_end_txn(  # type: ignore[misc]  # mypy cannot infer a default
                        request, RequestContext(5), now, new
                    )
                )
                assert reply.error_code == ErrorCode.NONE
                await until(lambda name=name: state_of(runner, name) == "CompleteCommit")  # type: ignore[misc]  # mypy cannot infer a default
            assert runner.shard is shard

    asyncio.run(live())


async def initialized(runner: TransactionRunner, name: str) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    reply = await runner.ask_with_producer_id(
        lambda shard, now, new: shard.handle_init_producer_id(request, RequestContext(5), now, new)
    )
    assert reply.error_code == ErrorCode.NONE
    return reply


def state_of(runner: TransactionRunner, name: str) -> str:
    reply = runner.ask(lambda shard, _: shard.handle_describe(name))
    assert isinstance(reply, TransactionState)
    return reply.transaction_state


@pytest.mark.parametrize("seed", range(4))
def test_what_was_acknowledged_is_there_whatever_was_refused(tmp_path: Path, seed: int) -> None:
    """Commits of all sizes in turns of all lengths: some do not fit, no other is lost."""
    random = Random(seed)

    async def live() -> None:
        kept: dict[tuple[str, int], int] = {}
        codes: Counter[int] = Counter()
        async with small_batches(tmp_path) as (node, runner):
            for offset in range(400):
                group = f"g{random.randrange(5)}"
                places = random.sample(range(PARTITIONS), random.randint(1, 6))
                metadata = "m" * random.choice([0, 10, 50, 200, 400])
                (code,) = commit(node, group, *places, offset=offset, metadata=metadata)
                codes[code] += 1
                if code == ErrorCode.NONE:
                    kept |= {(group, place): offset for place in places}
                if random.random() < 0.3:
                    assert not write_out(node)
            assert not write_out(node)
            assert codes.keys() == {ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR}
            assert codes[ErrorCode.NONE] > 100
        async with running(tmp_path, {"message.max.bytes": str(LIMIT)}) as node:
            (runner,) = node.groups
            await until(lambda: runner._shard is not None)
            found = {
                (group, part.partition_index): part.committed_offset
                for group in {name for name, _ in kept}
                for each in offsets(runner, group).topics
                for part in each.partitions
            }
            assert found == kept

    asyncio.run(live())
