"""Share groups on a running broker: their APIs, their state, and what a restart keeps."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ottla.broker.broker_server import BrokerServer
from ottla.broker.coordinators.share_coordinator import coordinator_key
from ottla.broker.metadata.topics import delete_topic
from ottla.config.topic_names import SHARE_GROUP_STATE
from ottla.coordinator.share_state.records import SharePartitionKey
from ottla.wire.batch import headers
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import alter_share_group_offsets as altering
from ottla.wire.messages import delete_groups, find_coordinator, list_groups
from ottla.wire.messages import delete_share_group_offsets as deleting
from ottla.wire.messages import describe_share_group_offsets as describing
from ottla.wire.messages import read_share_group_state as reading
from ottla.wire.messages import share_group_describe as descriptions
from ottla.wire.messages import share_group_heartbeat as heartbeats
from ottla.wire.messages import write_share_group_state as writing
from testkit.waiting import until_on_loop
from tests.broker.nodes import killed, running, topic, write
from tests.broker.sharing import ask

SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "3",
}
GROUP, NAME = "workers", "orders"


def on_a_broker(folder: Path, use: Callable[[BrokerServer], Awaitable[None]]) -> None:
    async def live() -> None:
        async with running(folder, SETTINGS) as node:
            await node.groups.ensure_topic()
            await loaded(node)
            await use(node)

    asyncio.run(live())


async def loaded(node: BrokerServer) -> None:
    """Wait until the group coordinators, and those of share partitions that are here, answer."""

    def all_answer() -> bool:
        runners: list[Any] = [*node.groups, *node.share_coordinator]
        try:
            return len(list(node.groups)) == 2 and all(runner.shard for runner in runners)
        except KafkaError:
            return False

    await until_on_loop(all_answer)


async def beat(node: BrokerServer, epoch: int = 0, member: str = "m", **more: Any) -> Any:
    if epoch == 0:
        more.setdefault("subscribed_topic_names", [NAME])
    request = heartbeats.ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id=member, member_epoch=epoch, **more
    )
    return await ask(node, request, heartbeats.ShareGroupHeartbeatResponse, 1)


async def offsets(node: BrokerServer) -> dict[int, tuple[int, int]]:
    """Start offset and lag of each partition that has state."""
    request = describing.DescribeShareGroupOffsetsRequest(
        groups=[describing.DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)]
    )
    answer = await ask(node, request, describing.DescribeShareGroupOffsetsResponse, 1)
    (group,) = answer.groups
    assert not group.error_code
    return {
        each.partition_index: (each.start_offset, each.lag)
        for found in group.topics
        for each in found.partitions
    }


async def alter(node: BrokerServer, **starts: int) -> altering.AlterShareGroupOffsetsResponse:
    request = altering.AlterShareGroupOffsetsRequest(
        group_id=GROUP,
        topics=[
            altering.AlterShareGroupOffsetsRequestTopic(
                topic_name=NAME,
                partitions=[
                    altering.AlterShareGroupOffsetsRequestPartition(
                        partition_index=int(index[1:]), start_offset=offset
                    )
                    for index, offset in starts.items()
                ],
            )
        ],
    )
    answer = await ask(node, request, altering.AlterShareGroupOffsetsResponse, 0)
    assert isinstance(answer, altering.AlterShareGroupOffsetsResponse)
    return answer


async def store(node: BrokerServer, topic_id: UUID, **more: Any) -> Any:
    """Write state, as the leader of partition 0 does."""
    part = writing.PartitionData(partition=0, **more)
    request = writing.WriteShareGroupStateRequest(
        group_id=GROUP, topics=[writing.WriteStateData(topic_id=topic_id, partitions=[part])]
    )
    answer = await ask(node, request, writing.WriteShareGroupStateResponse, 1)
    return answer.results[0].partitions[0]


async def stored(node: BrokerServer, topic_id: UUID, leader_epoch: int = 0) -> Any:
    part = reading.PartitionData(partition=0, leader_epoch=leader_epoch)
    request = reading.ReadShareGroupStateRequest(
        group_id=GROUP, topics=[reading.ReadStateData(topic_id=topic_id, partitions=[part])]
    )
    answer = await ask(node, request, reading.ReadShareGroupStateResponse, 0)
    return answer.results[0].partitions[0]


def test_the_first_heartbeat_brings_the_partitions(tmp_path: Path) -> None:
    async def use(node: BrokerServer) -> None:
        await topic(node, NAME, 3)
        reply = await beat(node)
        assert (reply.error_code, reply.member_epoch) == (0, 1)
        (found,) = reply.assignment.topic_partitions
        assert found.partitions == [0, 1, 2]
        assert await offsets(node) == {0: (-1, -1), 1: (-1, -1), 2: (-1, -1)}
        state = node.image.topics[SHARE_GROUP_STATE]
        assert len(state.assignment) == 3
        assert state.configs["cleanup.policy"] == "delete"
        assert state.configs["retention.ms"] == "-1"

    on_a_broker(tmp_path, use)


def test_a_group_is_listed_described_and_deleted_with_its_state(tmp_path: Path) -> None:
    async def use(node: BrokerServer) -> None:
        await topic(node, NAME)
        await beat(node)
        asked = list_groups.ListGroupsRequest(types_filter=["share"])
        (listed,) = (await ask(node, asked, list_groups.ListGroupsResponse, 5)).groups
        assert (listed.group_id, listed.group_state) == (GROUP, "Stable")
        request = descriptions.ShareGroupDescribeRequest(group_ids=[GROUP])
        answer = await ask(node, request, descriptions.ShareGroupDescribeResponse, 1)
        assert [member.member_id for member in answer.groups[0].members] == ["m"]
        doomed = delete_groups.DeleteGroupsRequest(groups_names=[GROUP])
        (refused,) = (await ask(node, doomed, delete_groups.DeleteGroupsResponse, 2)).results
        assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
        await beat(node, -1)
        (deleted,) = (await ask(node, doomed, delete_groups.DeleteGroupsResponse, 2)).results
        assert deleted.error_code == 0
        assert await offsets(node) == {}
        assert all(not runner.shard.states for runner in node.share_coordinator)

    on_a_broker(tmp_path, use)


def test_offsets_are_altered_and_deleted_while_a_group_is_empty(tmp_path: Path) -> None:
    async def use(node: BrokerServer) -> None:
        write(await topic(node, NAME, 2), 5)
        await beat(node)
        refused = await alter(node, p0=2)
        assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
        await beat(node, -1)
        (found,) = (await alter(node, p0=2, p7=1)).responses
        assert [each.error_code for each in found.partitions] == [
            0,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert await offsets(node) == {0: (2, 3), 1: (-1, -1)}
        doomed = deleting.DeleteShareGroupOffsetsRequest(
            group_id=GROUP,
            topics=[
                deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=NAME),
                deleting.DeleteShareGroupOffsetsRequestTopic(topic_name="missing"),
            ],
        )
        answer = await ask(node, doomed, deleting.DeleteShareGroupOffsetsResponse, 0)
        codes = {each.topic_name: each.error_code for each in answer.responses}
        assert codes == {NAME: 0, "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert await offsets(node) == {}

    on_a_broker(tmp_path, use)


def test_altering_the_offsets_of_a_new_group_creates_it(tmp_path: Path) -> None:
    async def use(node: BrokerServer) -> None:
        write(await topic(node, NAME), 5)
        assert (await alter(node, p0=1)).error_code == 0
        assert await offsets(node) == {0: (1, 4)}
        reply = await beat(node)
        assert reply.assignment.topic_partitions[0].partitions == [0]
        assert await offsets(node) == {0: (1, 4)}

    on_a_broker(tmp_path, use)


def test_a_killed_broker_keeps_acknowledgements_and_groups(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    async def use(node: BrokerServer) -> None:
        write(await topic(node, NAME), 9)
        await beat(node)
        topic_id = node.image.topics[NAME].id
        epoch = (await stored(node, topic_id, leader_epoch=1)).state_epoch
        for offset in (0, 2, 4):
            batch = writing.StateBatch(
                first_offset=offset, last_offset=offset, delivery_state=2, delivery_count=1
            )
            outcome = await store(
                node,
                topic_id,
                state_epoch=epoch,
                leader_epoch=1,
                start_offset=0,
                delivery_complete_count=offset // 2 + 1,
                state_batches=[batch],
            )
            assert outcome.error_code == 0
        killed(first, second)

    async def again(node: BrokerServer) -> None:
        topic_id = node.image.topics[NAME].id
        found = await node.share_persister.ask(
            reading.ReadShareGroupStateRequest(
                group_id=GROUP,
                topics=[
                    reading.ReadStateData(
                        topic_id=topic_id, partitions=[reading.PartitionData(leader_epoch=1)]
                    )
                ],
            )
        )
        batches = found.results[0].partitions[0].state_batches
        assert [each.first_offset for each in batches] == [0, 2, 4]
        fenced = await store(node, topic_id, state_epoch=1, leader_epoch=0)
        assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert await offsets(node) == {0: (0, 6)}
        assert (await beat(node, 1)).error_code == 0

    on_a_broker(first, use)
    on_a_broker(second, again)


def test_the_state_of_a_deleted_topic_is_deleted(tmp_path: Path) -> None:
    async def use(node: BrokerServer) -> None:
        await topic(node, NAME, 2)
        await beat(node)
        await delete_topic(node.metadata, NAME)
        assert await offsets(node) == {}
        assert all(not runner.shard.states for runner in node.share_coordinator)

    on_a_broker(tmp_path, use)


def test_the_log_is_pruned_below_the_latest_snapshots(tmp_path: Path) -> None:
    async def use(node: BrokerServer) -> None:
        await topic(node, NAME)
        topic_id = (await beat(node)).assignment.topic_partitions[0].topic_id
        await beat(node, -1)
        for start in range(3):
            assert not (await alter(node, p0=start)).error_code
        key = SharePartitionKey(GROUP, topic_id, 0)
        runner = node.share_coordinator.runner_for(key)
        below = runner.shard.redundant_below
        assert below == runner.partition.log.end_offset - 1
        await runner._prune(below)
        assert runner.partition.log.start_offset == below

    on_a_broker(tmp_path, use)


@pytest.mark.parametrize(
    ("key", "version", "error"),
    [
        (coordinator_key(SharePartitionKey("g:h", UUID(int=7), 3)), 6, 0),
        (coordinator_key(SharePartitionKey("g", UUID(int=7), 3)), 5, ErrorCode.INVALID_REQUEST),
        ("g:0", 6, ErrorCode.INVALID_REQUEST),
        ("g:AAAAAAAAAAAAAAAAAAAAAA:x", 6, ErrorCode.INVALID_REQUEST),
    ],
)
def test_the_coordinator_of_a_share_partition_is_found(
    tmp_path: Path, key: str, version: int, error: int
) -> None:
    async def use(node: BrokerServer) -> None:
        request = find_coordinator.FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
        answer = await ask(node, request, find_coordinator.FindCoordinatorResponse, version)
        (found,) = answer.coordinators
        assert found.error_code == error
        assert found.node_id == (-1 if error else node.id)

    on_a_broker(tmp_path, use)


def test_what_is_asked_in_one_turn_shares_an_append(tmp_path: Path) -> None:
    async def use(node: BrokerServer) -> None:
        await topic(node, NAME, 12)
        await beat(node)
        topic_id = node.image.topics[NAME].id
        states = [runner.partition.log for runner in node.share_coordinator]
        before = [log.end_offset for log in states], _batches(node)

        def one(partition: int) -> Any:
            part = writing.PartitionData(partition=partition, state_epoch=-1, start_offset=0)
            return node.share_persister.ask(
                writing.WriteShareGroupStateRequest(
                    group_id=GROUP,
                    topics=[writing.WriteStateData(topic_id=topic_id, partitions=[part])],
                )
            )

        answers = await asyncio.gather(*(one(number) for number in range(12)))
        codes = {each.results[0].partitions[0].error_code for each in answers}
        assert codes == {0}
        grown = [log.end_offset - end for log, end in zip(states, before[0], strict=True)]
        assert sum(grown) == 12
        assert _batches(node) - before[1] == sum(1 for each in grown if each)

    on_a_broker(tmp_path, use)


def _batches(node: BrokerServer) -> int:
    """How many batches the partitions of the share coordinator have."""
    return sum(
        sum(1 for _ in headers(memoryview(path.read_bytes())))
        for runner in node.share_coordinator
        for path in Path(runner.partition.log.directory).glob("*.log")
    )
