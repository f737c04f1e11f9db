"""Streams groups on a running broker: internal topics, a restart, protocols that are turned off."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.api import load_all
from ottla.api.registry import ENDPOINTS, Request
from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.topics import create_topic
from ottla.broker.scheduling.waiting import settled
from ottla.config import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.coordinator.streams.configured import StatusCode
from ottla.later import Later
from ottla.metadata.topics import NewTopic
from ottla.wire import codec
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import Message
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from ottla.wire.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)
from testkit.waiting import until_on_loop
from tests.broker.nodes import running

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}


async def ask(node: BrokerServer, message: Message, response: type[Any], version: int = 0) -> Any:
    body = memoryview(bytearray(codec.encode(message, version)))
    key = message.API_KEY
    request = Request(node, key, version, 1, "c", "127.0.0.1", "PLAINTEXT", 1)
    outcome: Any = ENDPOINTS[key].handle(request, body, 0)
    if isinstance(outcome, Later):
        outcome = await settled(outcome)
    elif not isinstance(outcome, tuple | list):
        outcome = await outcome
    return codec.decode(response, version, memoryview(b"".join(outcome)))


def topology(*sources: str, **more: Any) -> Topology:
    changelog = TopicInfo(name="counts-changelog", **more)
    return Topology(
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=list(sources),
                state_changelog_topics=[changelog],
            )
        ]
    )


async def join(node: BrokerServer, wanted: Topology) -> StreamsGroupHeartbeatResponse:
    request = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        process_id="p",
        rebalance_timeout_ms=60_000,
        topology=wanted,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    found: StreamsGroupHeartbeatResponse = await ask(node, request, StreamsGroupHeartbeatResponse)
    return found


async def beat(node: BrokerServer, epoch: int) -> StreamsGroupHeartbeatResponse:
    request = StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
    found: StreamsGroupHeartbeatResponse = await ask(node, request, StreamsGroupHeartbeatResponse)
    return found


async def until_created(node: BrokerServer) -> None:
    await until_on_loop(lambda: not node.streams_topics._under_way)


def test_internal_topics_are_created_with_the_settings_of_the_application(tmp_path: Path) -> None:
    load_all()

    async def live() -> None:
        async with running(tmp_path, SETTINGS) as node:
            await node.groups.ensure_topic()
            await create_topic(node.metadata, NewTopic("words", 3))
            policy = KeyValue(key="cleanup.policy", value="compact")
            reply = await join(node, topology("words", topic_configs=[policy]))
            assert [each.status_code for each in reply.status or ()] == [
                StatusCode.MISSING_INTERNAL_TOPICS
            ]
            assert reply.active_tasks == []
            await until_created(node)
            created = node.image.topics["counts-changelog"]
            assert len(created.assignment) == 3
            assert created.configs == {"cleanup.policy": "compact"}
            reply = await beat(node, reply.member_epoch)
            assert (reply.status, reply.error_code) == ([], 0)
            assert reply.active_tasks is not None
            assert [each.partitions for each in reply.active_tasks] == [[0, 1, 2]]
            epoch = reply.member_epoch
        async with running(tmp_path, SETTINGS) as node:  # the group is read from its records
            runners = list(node.groups)
            assert runners
            await until_on_loop(lambda: all(each._shard is not None for each in runners))
            again = await beat(node, epoch)
            assert again.error_code == 0
            asked = StreamsGroupDescribeRequest(group_ids=["g"])
            (group,) = (await ask(node, asked, StreamsGroupDescribeResponse)).groups
            assert (group.error_code, group.group_state) == (0, "Stable")

    asyncio.run(live())


def test_the_application_learns_why_a_topic_could_not_be_created(tmp_path: Path) -> None:
    load_all()

    async def live() -> None:
        async with running(tmp_path, SETTINGS) as node:
            await node.groups.ensure_topic()
            await create_topic(node.metadata, NewTopic("words"))
            reply = await join(node, topology("words", replication_factor=3))
            await until_created(node)
            statuses = (await beat(node, reply.member_epoch)).status
            assert statuses is not None
            (status,) = statuses
            assert status.status_code == StatusCode.MISSING_INTERNAL_TOPICS
            assert "Creation failed: counts-changelog (" in status.status_detail
            assert "3" in status.status_detail
            await until_created(node)

    asyncio.run(live())


@pytest.mark.parametrize("name", ["__consumer_offsets", "no/such", ""])
def test_topics_that_no_application_may_use_are_refused(tmp_path: Path, name: str) -> None:
    load_all()

    async def live() -> None:
        async with running(tmp_path, SETTINGS) as node:
            reply = await join(node, topology(name))
            assert reply.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY

    asyncio.run(live())


def test_protocols_can_be_turned_off(tmp_path: Path) -> None:
    load_all()
    off = {**SETTINGS, "group.coordinator.rebalance.protocols": "classic"}

    async def live() -> None:
        async with running(tmp_path, off) as node:
            codes = [(await join(node, topology("words"))).error_code]
            consumer = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m")
            codes.append((await ask(node, consumer, ConsumerGroupHeartbeatResponse)).error_code)
            for request, response in (
                (StreamsGroupDescribeRequest(group_ids=["g"]), StreamsGroupDescribeResponse),
                (ConsumerGroupDescribeRequest(group_ids=["g"]), ConsumerGroupDescribeResponse),
            ):
                codes += [each.error_code for each in (await ask(node, request, response)).groups]
            assert codes == [ErrorCode.UNSUPPORTED_VERSION] * 4

    asyncio.run(live())


@pytest.mark.parametrize("protocols", ["consumer,streams", "", "classic,other"])
def test_the_classic_protocol_cannot_be_turned_off(protocols: str) -> None:
    with pytest.raises(ConfigError):
        BrokerConfig.from_static({"group.coordinator.rebalance.protocols": protocols})


def test_a_cordoned_broker_gets_no_new_replicas(tmp_path: Path) -> None:
    async def live() -> None:
        settings = {"cordoned.log.dirs": str(tmp_path / "data")}
        async with running(tmp_path / "data", settings) as node:
            with pytest.raises(KafkaError) as refused:
                await create_topic(node.metadata, NewTopic("t"))
            assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
            await create_topic(node.metadata, NewTopic("named", assignment={0: [node.id]}))
            assert node.image.topics["named"].assignment == [[node.id]]

    asyncio.run(live())


def test_only_the_data_folder_can_be_cordoned(tmp_path: Path) -> None:
    folders = {"log.dirs": str(tmp_path)}
    BrokerConfig.from_static({**folders, "cordoned.log.dirs": "*"})
    with pytest.raises(ConfigError, match=r"must be present in log\.dirs"):
        BrokerConfig.from_static({**folders, "cordoned.log.dirs": "/elsewhere"})
