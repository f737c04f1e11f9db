"""Client quotas on a running broker: answered at once with the time to wait, then muted."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from ottla.api import load_all
from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.security import alter_quotas
from ottla.broker.metrics.counters import NetworkMetrics
from ottla.broker.scheduling.waiting import settled
from ottla.later import Later
from ottla.security.quotas import CONSUME, MUTATION, PRODUCE, REQUEST, Entity
from ottla.server.dispatch import Dispatcher
from ottla.server.server import Server
from ottla.wire import codec
from ottla.wire.apis import FIRST_FLEXIBLE, ApiKey
from ottla.wire.headers import read_request_header
from ottla.wire.message import Message
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from testkit.batches import values
from tests.broker.nodes import running, topic

SECOND = {"quota.window.num": "2", "controller.quota.window.num": "2"}
"""A second's worth of a quota may be used at once."""
ANONYMOUS = Entity("ANONYMOUS")


class _Client:
    """Requests as a connection hands them to the dispatcher."""

    def __init__(self, node: BrokerServer) -> None:
        server = Server(node, NetworkMetrics(), ())
        self._dispatcher = Dispatcher(server, "10.0.0.1", "PLAINTEXT", 1)

    async def ask(self, key: ApiKey, version: int, message: Message, reply: type[Any]) -> Any:
        flexible = b"\0" if version >= FIRST_FLEXIBLE[key] else b""
        head = pack(">hhih", key, version, 7, 3) + b"app" + flexible
        frame = memoryview(bytearray(head + codec.encode(message, version)))
        answer = self._dispatcher.handle(read_request_header(frame), frame)
        if isinstance(answer, Later):
            answer = await settled(answer)
        assert answer is not None
        whole = b"".join(part for part in answer if isinstance(part, bytes))
        return codec.decode(reply, version, memoryview(whole))

    async def produce(self, size: int, version: int = 9) -> Any:
        records = bytes(values(b"x" * size))
        part = PartitionProduceData(index=0, records=records)
        message = ProduceRequest(
            acks=1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name="t", partition_data=[part])],
        )
        return await self.ask(ApiKey.PRODUCE, version, message, ProduceResponse)


@asynccontextmanager
async def _limited(folder: Path, **quotas: float) -> AsyncIterator[tuple[BrokerServer, _Client]]:
    load_all()
    async with running(folder, SECOND) as node:
        await topic(node, "t")
        await alter_quotas(node.metadata, ANONYMOUS, quotas, validate_only=False)
        yield node, _Client(node)


@pytest.mark.parametrize("version", [8, 9])
def test_a_producer_over_its_quota_is_told_to_wait_and_is_muted(
    tmp_path: Path, version: int
) -> None:
    async def live() -> None:
        async with _limited(tmp_path, **{PRODUCE: 10_000.0}) as (_, client):
            assert (await client.produce(100, version)).throttle_time_ms == 0
            told = await client.produce(13_000, version)
            assert 100 < told.throttle_time_ms < 1000
            assert not told.responses[0].partition_responses[0].error_code
            started = time.monotonic()
            await client.produce(10, version)
            assert time.monotonic() - started >= told.throttle_time_ms / 1000 - 0.05

    asyncio.run(live())


def test_a_consumer_over_its_quota_gets_an_empty_answer(tmp_path: Path) -> None:
    ask = FetchPartition(partition=0, partition_max_bytes=1 << 20)

    async def live() -> None:
        async with _limited(tmp_path, **{CONSUME: 10_000.0}) as (node, client):
            partition = node.partitions.find("t", 0)
            for _ in range(2):
                await client.produce(6_000)
            ask.fetch_offset = partition.log.end_offset
            fetch = FetchRequest(
                max_bytes=1 << 20, topics=[FetchTopic(topic="t", partitions=[ask])]
            )
            empty = await client.ask(ApiKey.FETCH, 12, fetch, FetchResponse)
            assert empty.throttle_time_ms == 0
            node.quotas.take(CONSUME, _Asking(client), 12_000)
            refused = await client.ask(ApiKey.FETCH, 12, fetch, FetchResponse)
            assert refused.throttle_time_ms > 0
            assert refused.responses == []
            assert refused.error_code == 0

    asyncio.run(live())


class _Asking:
    def __init__(self, client: _Client) -> None:
        self.access = client._dispatcher._access
        self.client_id = "app"


def test_requests_that_take_too_much_time_are_throttled_for_a_second_at_most(
    tmp_path: Path,
) -> None:
    async def live() -> None:
        async with _limited(tmp_path, **{REQUEST: 0.0001}) as (_, client):
            told = await client.ask(
                ApiKey.HEARTBEAT, 3, HeartbeatRequest(group_id="g"), HeartbeatResponse
            )
            assert told.throttle_time_ms == 1000

    asyncio.run(live())


def test_changes_of_topics_over_the_quota_are_refused(tmp_path: Path) -> None:
    async def live() -> None:
        async with _limited(tmp_path, **{MUTATION: 1.0}) as (node, client):

            async def create(name: str, version: int) -> Any:
                new = CreatableTopic(name=name, num_partitions=3, replication_factor=1)
                message = CreateTopicsRequest(topics=[new], timeout_ms=1000)
                reply = await client.ask(
                    ApiKey.CREATE_TOPICS, version, message, CreateTopicsResponse
                )
                return reply.topics[0].error_code, reply.throttle_time_ms

            code, wait = await create("a", 4)
            assert code == 0
            assert wait > 1000
            assert (await create("b", 7))[0] == 89  # THROTTLING_QUOTA_EXCEEDED
            assert "b" not in node.image.topics
            assert (await create("c", 4))[0] == 0  # an older client is only told to wait

    asyncio.run(live())


def test_without_quotas_nothing_is_charged(tmp_path: Path) -> None:
    async def live() -> None:
        async with _limited(tmp_path, **{PRODUCE: 1.0}) as (node, client):
            assert (await client.produce(10)).throttle_time_ms > 0
            await alter_quotas(node.metadata, ANONYMOUS, {PRODUCE: None}, validate_only=False)
            assert node.quotas.is_empty
            fresh = _Client(node)
            assert (await fresh.produce(100_000)).throttle_time_ms == 0

    asyncio.run(live())


def test_an_address_that_connects_too_often_has_to_wait(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path, SECOND) as node:
            entity = Entity(ip="10.0.0.1")
            rate = {"connection_creation_rate": 2.0}
            await alter_quotas(node.metadata, entity, rate, validate_only=False)
            assert [node.quotas.connected("10.0.0.1") > 0 for _ in range(3)] == [False, False, True]
            assert node.quotas.connected("10.0.0.2") == 0

    asyncio.run(live())
