"""Share groups on the leader: fetches, acknowledgements, sessions, locks, failed writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from ottla.api.share_fetch import MOST_PARTITIONS
from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.topics import delete_topic, replace_group_configs
from ottla.broker.metrics.share_families import share_families
from ottla.broker.replicas.partition import Partition
from ottla.share.states import Acknowledgement
from ottla.wire.batch import headers
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import running, topic, write
from tests.broker.sharing import GROUP, NOTHING, Got, Member, StoredState, stored_by

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
LONG = 30_000


@asynccontextmanager
async def sharing(
    folder: Path, **settings: str
) -> AsyncIterator[tuple[BrokerServer, Partition, StoredState]]:
    """A broker with a topic and a store; the group reads from the beginning."""
    async with running(folder, {"group.share.min.record.lock.duration.ms": "1000"}) as node:
        state = stored_by(node)
        partition = await topic(node, "t")
        await configure(node, **{"share.auto.offset.reset": "earliest", **settings})
        yield node, partition, state


async def configure(node: BrokerServer, **settings: str) -> None:
    """Set settings of the group."""
    await replace_group_configs(node.metadata, GROUP, settings, validate_only=False)


def on_loop(test: Callable[[Path], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """A test that runs on a loop of its own."""

    def run(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path))

    run.__name__ = test.__name__
    return run


def offsets(got: Got) -> list[int]:
    return [offset for first, last, _ in got.acquired for offset in range(first, last + 1)]


@on_loop
async def test_records_are_acquired_and_not_offered_again_once_accepted(tmp_path: Path) -> None:
    async with sharing(tmp_path) as (node, partition, state):
        write(partition, 5)
        one = Member(node, partition.topic_id)
        two = Member(node, partition.topic_id, "m2", 2)
        got = await one.fetch(wait_ms=LONG)
        assert offsets(got) == [0, 1, 2, 3, 4]
        assert [header.base_offset for _, header in headers(memoryview(got.records))] == [*range(5)]
        assert await two.fetch() == NOTHING
        assert await one.acknowledge((0, 4, (ACCEPT,))) == (0, 0)
        assert {state for _, state in state.states.values()} == {2}
        write(partition, 1)
        assert offsets(await two.fetch(wait_ms=LONG)) == [5]
        assert node.sharing.metrics.acknowledged[ACCEPT] == 5  # type: ignore[index]


@on_loop
async def test_a_fetch_waits_for_records_and_is_woken_by_an_append(tmp_path: Path) -> None:
    async with sharing(tmp_path) as (node, partition, _):
        member = Member(node, partition.topic_id)
        await member.fetch()
        waiting = asyncio.ensure_future(member.fetch(wait_ms=LONG))
        await until(lambda: len(partition._readers) == 1)
        write(partition, 2)
        assert offsets(await waiting)[0] == 0


@on_loop
async def test_released_records_come_again_with_a_higher_count(tmp_path: Path) -> None:
    async with sharing(tmp_path) as (node, partition, _):
        write(partition, 3)
        member = Member(node, partition.topic_id)
        await member.fetch(wait_ms=LONG)
        got = await member.fetch((0, 0, (ACCEPT,)), (1, 1, (RELEASE,)), (2, 2, (REJECT,)))
        if not got.acquired:
            got = await member.fetch(wait_ms=LONG)
        assert got.acquired == [(1, 1, 2)]


@on_loop
async def test_the_end_of_a_connection_gives_its_records_to_others(tmp_path: Path) -> None:
    async with sharing(tmp_path) as (node, partition, state):
        write(partition, 3)
        one = Member(node, partition.topic_id)
        two = Member(node, partition.topic_id, "m2", 2)
        await one.fetch(wait_ms=LONG)
        assert await two.fetch() == NOTHING
        node.sharing.connection_closed(1)
        assert (await two.fetch(wait_ms=LONG)).acquired == [(0, 2, 2)]
        assert len(state.states) == 3
        assert len(node.sharing.sessions) == 1


@on_loop
async def test_the_final_epoch_closes_the_session_and_releases(tmp_path: Path) -> None:
    async with sharing(tmp_path) as (node, partition, _):
        write(partition, 2)
        one = Member(node, partition.topic_id)
        two = Member(node, partition.topic_id, "m2", 2)
        await one.fetch(wait_ms=LONG)
        await two.fetch()
        assert await one.acknowledge((0, 0, (ACCEPT,)), epoch=-1) == (0, 0)
        assert (await two.fetch(wait_ms=LONG)).acquired == [(1, 1, 2)]
        assert await one.acknowledge((1, 1, (ACCEPT,)), epoch=2) == (
            ErrorCode.SHARE_SESSION_NOT_FOUND,
            0,
        )


@on_loop
async def test_session_epochs_are_checked(tmp_path: Path) -> None:
    async with sharing(tmp_path) as (node, partition, _):
        member = Member(node, partition.topic_id)
        unknown = await member.fetch_reply(epoch=4)
        assert unknown.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        await member.fetch()
        wrong = await member.fetch_reply(epoch=7)
        assert wrong.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        first = await member.fetch_reply([(0, 0, (ACCEPT,))], epoch=0)
        assert first.error_code == ErrorCode.INVALID_REQUEST
        assert (await member.acknowledge((0, 0, (ACCEPT,)), epoch=0))[0] == (
            ErrorCode.INVALID_SHARE_SESSION_EPOCH
        )
        nameless = await member.fetch_reply(member_id="")
        assert nameless.error_code == ErrorCode.INVALID_REQUEST
        long = await member.fetch_reply(member_id="m" * 37)
        assert long.error_code == ErrorCode.INVALID_REQUEST


def numbered(topic_id: UUID, numbers: range) -> list[FetchTopic]:
    return [
        FetchTopic(
            topic_id=topic_id, partitions=[FetchPartition(partition_index=each) for each in numbers]
        )
    ]


@on_loop
async def test_a_session_has_a_bounded_number_of_partitions(tmp_path: Path) -> None:
    async with sharing(tmp_path) as (node, partition, _):
        member = Member(node, partition.topic_id)
        too_many = numbered(partition.topic_id, range(MOST_PARTITIONS + 1))
        refused = await member.fetch_reply(topics=too_many)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        most = numbered(partition.topic_id, range(MOST_PARTITIONS))
        reply = await member.fetch_reply(topics=most)
        assert reply.error_code == ErrorCode.NONE
        codes = {
            each.partition_index: each.error_code
            for each in reply.responses[0].partitions
            if each.error_code
        }
        assert set(codes) == set(range(1, MOST_PARTITIONS))
        assert set(codes.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        one_more = numbered(partition.topic_id, range(MOST_PARTITIONS, MOST_PARTITIONS + 1))
        refused = await member.fetch_reply(topics=one_more)
        assert refused.error_code == ErrorCode.INVALID_REQUEST


@on_loop
async def test_more_sessions_than_configured_are_refused(tmp_path: Path) -> None:
    settings = {"group.share.max.share.sessions": "1", "group.share.max.size": "1"}
    async with running(tmp_path, settings) as node:
        partition = await topic(node, "t")
        stored_by(node)
        await Member(node, partition.topic_id).fetch()
        refused = await Member(node, partition.topic_id, "m2", 2).fetch_reply()
        assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


@on_loop
async def test_wrong_acknowledgements_get_kafkas_errors_and_change_nothing(tmp_path: Path) -> None:
    async with sharing(tmp_path) as (node, partition, state):
        write(partition, 4)
        one = Member(node, partition.topic_id)
        two = Member(node, partition.topic_id, "m2", 2)
        await one.fetch(wait_ms=LONG)
        await two.fetch()
        wrong = ErrorCode.INVALID_RECORD_STATE
        bad = ErrorCode.INVALID_REQUEST
        assert await two.acknowledge((0, 1, (ACCEPT,))) == (0, wrong)
        assert await one.acknowledge((0, 9, (ACCEPT,))) == (0, bad)
        assert await one.acknowledge((1, 0, (ACCEPT,))) == (0, bad)
        assert await one.acknowledge((2, 3, (ACCEPT,)), (0, 1, (ACCEPT,))) == (0, bad)
        assert await one.acknowledge((0, 1, (ACCEPT, ACCEPT, ACCEPT))) == (0, bad)
        assert await one.acknowledge((0, 1, ())) == (0, bad)
        assert await one.acknowledge((0, 1, (5,))) == (0, bad)
        assert await one.acknowledge((0, 1, (RENEW,))) == (0, bad)
        assert await one.acknowledge((0, 1, (ACCEPT,)), (1, 2, (ACCEPT,))) == (0, wrong)
        assert not state.requests
        assert await one.acknowledge((0, 3, (RENEW,)), renew=True) == (0, 0)
        assert await one.acknowledge((0, 3, (ACCEPT,))) == (0, 0)
        assert await one.acknowledge((0, 3, (ACCEPT,))) == (0, 0)  # below the start offset


@on_loop
async def test_a_failed_write_leaves_the_records_with_their_owner(tmp_path: Path) -> None:
    async with sharing(tmp_path) as (node, partition, state):
        write(partition, 2)
        member = Member(node, partition.topic_id)
        await member.fetch(wait_ms=LONG)
        state.error = ErrorCode.KAFKA_STORAGE_ERROR
        assert await member.acknowledge((0, 1, (ACCEPT,))) == (0, ErrorCode.UNKNOWN_SERVER_ERROR)
        state.error = ErrorCode.NONE
        assert await member.acknowledge((0, 1, (ACCEPT,))) == (0, 0)
        assert node.sharing.live_partitions[0].machine is not None
        assert node.sharing.live_partitions[0].machine.start_offset == 2


@on_loop
async def test_a_fenced_write_drops_the_share_partition_and_it_is_loaded_again(
    tmp_path: Path,
) -> None:
    async with sharing(tmp_path) as (node, partition, state):
        write(partition, 2)
        member = Member(node, partition.topic_id)
        await member.fetch(wait_ms=LONG)
        await member.acknowledge((0, 0, (ACCEPT,)))
        state.error = ErrorCode.FENCED_STATE_EPOCH
        assert await member.acknowledge((1, 1, (ACCEPT,))) == (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert not node.sharing.live_partitions
        state.error = ErrorCode.NONE
        assert offsets(await member.fetch(wait_ms=LONG)) == [1]


@on_loop
async def test_writes_of_one_turn_share_a_request(tmp_path: Path) -> None:
    async with sharing(tmp_path) as (node, partition, state):
        write(partition, 2)
        one = Member(node, partition.topic_id)
        two = Member(node, partition.topic_id, "m2", 2)
        await one.fetch(wait_ms=LONG, max_records=1)
        await two.fetch(wait_ms=LONG, max_records=1)
        other = await topic(node, "u")
        write(other, 1)
        three = Member(node, other.topic_id, "m3", 3)
        await three.fetch(wait_ms=LONG)
        codes = await asyncio.gather(
            one.acknowledge((0, 0, (ACCEPT,))), three.acknowledge((0, 0, (ACCEPT,)))
        )
        assert list(codes) == [(0, 0), (0, 0)]
        (request,) = state.requests
        assert len(request.topics) == 2


@on_loop
async def test_a_lock_ends_and_the_record_is_delivered_again(tmp_path: Path) -> None:
    async with sharing(tmp_path, **{"share.record.lock.duration.ms": "1000"}) as (
        node,
        partition,
        _,
    ):
        write(partition, 1)
        one = Member(node, partition.topic_id)
        two = Member(node, partition.topic_id, "m2", 2)
        await one.fetch(wait_ms=LONG)
        assert (await two.fetch(wait_ms=LONG)).acquired == [(0, 0, 2)]
        assert await one.acknowledge((0, 0, (ACCEPT,))) == (0, ErrorCode.INVALID_RECORD_STATE)


@on_loop
async def test_a_deleted_topic_ends_waiting_fetches_and_drops_its_share_partitions(
    tmp_path: Path,
) -> None:
    async with sharing(tmp_path) as (node, partition, _):
        member = Member(node, partition.topic_id)
        await member.fetch()
        waiting = asyncio.ensure_future(member.fetch(wait_ms=LONG))
        await until(lambda: len(partition._readers) == 1)
        await delete_topic(node.metadata, "t")
        assert (await waiting).error != ErrorCode.NONE
        assert not node.sharing.live_partitions
        got = await member.fetch(wait_ms=LONG)
        assert got.error == ErrorCode.UNKNOWN_TOPIC_ID


@on_loop
async def test_a_record_that_is_held_back_is_offered_after_its_delay(tmp_path: Path) -> None:
    async with sharing(tmp_path, **{"ottla.share.redelivery.delay.ms": "300"}) as (
        node,
        partition,
        _,
    ):
        write(partition, 1)
        member = Member(node, partition.topic_id)
        await member.fetch(wait_ms=LONG)
        started = node.elapsed_ms()
        assert await member.acknowledge((0, 0, (RELEASE,))) == (0, 0)
        assert (await member.fetch(wait_ms=LONG)).acquired == [(0, 0, 2)]
        assert node.elapsed_ms() - started >= 300


@on_loop
async def test_a_group_without_state_begins_at_the_end_by_default(tmp_path: Path) -> None:
    async with sharing(tmp_path, **{"share.auto.offset.reset": "latest"}) as (node, partition, _):
        write(partition, 3)
        member = Member(node, partition.topic_id)
        assert await member.fetch() == NOTHING
        await until(lambda: node.sharing.live_partitions[0].machine is not None)
        write(partition, 1)
        assert offsets(await member.fetch(wait_ms=LONG)) == [3]


@on_loop
async def test_nothing_is_due_once_a_record_that_was_held_back_is_offered(tmp_path: Path) -> None:
    async with sharing(tmp_path, **{"ottla.share.redelivery.delay.ms": "50"}) as (
        node,
        partition,
        _,
    ):
        write(partition, 1)
        member = Member(node, partition.topic_id)
        await member.fetch(wait_ms=LONG)
        assert await member.acknowledge((0, 0, (RELEASE,))) == (0, 0)
        (live,) = node.sharing.live_partitions
        assert live._timer is not None
        await until(lambda: live._timer is None)


@on_loop
async def test_where_latest_begins_is_stored_before_anything_is_delivered(tmp_path: Path) -> None:
    async with sharing(tmp_path, **{"share.auto.offset.reset": "latest"}) as (
        node,
        partition,
        state,
    ):
        write(partition, 3)
        member = Member(node, partition.topic_id)
        await member.fetch()
        await until(lambda: node.sharing.live_partitions[0].machine is not None)
        assert state.start == 3
        write(partition, 2)
        assert offsets(await member.fetch(wait_ms=LONG)) == [3, 4]
        node.sharing.ends_to_lead(partition)  # nothing was acknowledged
        await until(lambda: not node.sharing.live_partitions)
        other = Member(node, partition.topic_id, "m2", 2)
        assert offsets(await other.fetch(wait_ms=LONG)) == [3, 4]


@on_loop
async def test_acknowledgements_that_come_during_a_write_go_together_after_it(
    tmp_path: Path,
) -> None:
    async with sharing(tmp_path) as (node, partition, state):
        write(partition, 4)
        member = Member(node, partition.topic_id)
        await member.fetch(wait_ms=LONG)
        state.gate.clear()
        (live,) = node.sharing.live_partitions
        outcomes = []
        for offset in range(4):
            outcomes.append(live.acknowledge("m1", [Acknowledgement(offset, offset, (ACCEPT,))]))
            await asyncio.sleep(0)
        state.gate.set()
        await until(lambda: all(each.done for each in outcomes))
        assert {each.result() for each in outcomes} == {ErrorCode.NONE}
        sent = [request.topics[0].partitions[0] for request in state.requests]
        assert [len(part.state_batches) for part in sent] == [1, 3]
        assert state.start == 1, "of the first write: what it did not know of is not counted"
        assert live.machine is not None
        assert live.machine.start_offset == 4


@on_loop
async def test_a_share_partition_is_read_after_the_writes_of_its_last_members(
    tmp_path: Path,
) -> None:
    async with sharing(tmp_path) as (node, partition, state):
        write(partition, 2)
        one = Member(node, partition.topic_id)
        await one.fetch(wait_ms=LONG)
        state.gate.clear()
        node.sharing.connection_closed(1)
        assert not node.sharing.live_partitions
        two = Member(node, partition.topic_id, "m2", 2)
        waiting = asyncio.ensure_future(two.fetch(wait_ms=LONG))
        await until(lambda: bool(node.sharing._tools.persister._readers))
        state.gate.set()
        assert (await waiting).acquired == [(0, 0, 2), (1, 1, 2)]


@on_loop
async def test_what_a_member_holds_of_a_forgotten_partition_is_given_back_too(
    tmp_path: Path,
) -> None:
    async with sharing(tmp_path) as (node, partition, _):
        write(partition, 2)
        one = Member(node, partition.topic_id)
        two = Member(node, partition.topic_id, "m2", 2)
        await one.fetch(wait_ms=LONG)
        await two.fetch()
        gone = ForgottenTopic(topic_id=partition.topic_id, partitions=[0])
        await one.fetch_reply(topics=[], forgotten_topics_data=[gone])
        node.sharing.connection_closed(1)
        assert (await two.fetch(wait_ms=LONG)).acquired == [(0, 1, 2)]


@on_loop
async def test_metrics_have_kafkas_names(tmp_path: Path) -> None:
    async with sharing(tmp_path) as (node, partition, _):
        write(partition, 3)
        member = Member(node, partition.topic_id)
        await member.fetch(wait_ms=LONG)
        await member.acknowledge((0, 0, (ACCEPT,)))
        samples = {
            (sample.name, *sample.labels.values()): sample.value
            for family in share_families(node.sharing)
            for sample in family.samples
        }
        place = (GROUP, "t", "0")
        assert samples["kafka_server_sharepartitionmetrics_inflightmessagecount", *place] == 2
        name = "kafka_server_sharegroupmetrics_recordacknowledgements_total"
        assert samples[name, "accept"] == 1
        assert samples["kafka_server_sharesessioncache_sharesessionscount",] == 1
