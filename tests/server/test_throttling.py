"""Client quotas on a running broker: answered at once with the time to wait, then muted."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from ottla.api import load_all
from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.security import alter_quotas
from ottla.broker.metrics.counters import NetworkMetrics
from ottla.security.principal import Principal
from ottla.security.quotas import CONSUME, MUTATION, PRODUCE, REQUEST, Entity
from ottla.server.dispatch import Dispatcher
from ottla.server.interfaces import Answer
from ottla.server.server import Server
from ottla.wire import codec
from ottla.wire.apis import FIRST_FLEXIBLE, ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.headers import RequestHeader
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from testkit.batches import values
from tests.broker.nodes import running, topic
from tests.server.fake_shell import FakeShell, request

SECOND = {"quota.window.num": "2", "controller.quota.window.num": "2"}
"""A second's worth of a quota may be used at once."""
ANONYMOUS = Entity("ANONYMOUS")


class _Client(FakeShell):
    """A connection without a socket, whose requests are handled by the dispatcher."""

    def __init__(self, node: BrokerServer, *, knows_client: bool = True) -> None:
        super().__init__()
        server = Server(node, NetworkMetrics(), ())
        self._dispatcher = Dispatcher(
            server, "10.0.0.1", "PLAINTEXT", 1, self.protocol.mute, knows_client=knows_client
        )
        self.largest_request = 100 << 20
        self._changed = asyncio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    def reply_ready(self) -> None:
        super().reply_ready()
        self._changed.set()

    def task_done(self) -> None:
        super().task_done()
        self._changed.set()

    def now(self) -> float:
        return self._dispatcher.now()

    def handle(self, header: RequestHeader, frame: memoryview) -> Answer:
        self.handled.append(header.correlation_id)
        return self._dispatcher.handle(header, frame)

    def answered(self, api_key: int, started: float, size: int) -> None:
        self._dispatcher.answered(api_key, started, size)

    async def ask(self, key: ApiKey, version: int, message: Message, reply: type[Any]) -> Any:
        flexible = b"\0" if version >= FIRST_FLEXIBLE[key] else b""
        frame = pack(">hhih", key, version, 7, 3) + b"app" + flexible
        frame += codec.encode(message, version)
        self.receive(pack(">i", len(frame)) + frame)
        outbox = self.protocol.outbox
        await self.until(lambda: outbox.size > 0)
        whole = b"".join(part for part in outbox.parts if isinstance(part, bytes))
        outbox.parts.clear()
        outbox.size = 0
        return codec.decode(reply, version, memoryview(whole)[8 + len(flexible) :])

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


@pytest.mark.parametrize("quota", [10_000.0, 1_000_000.0])
def test_one_fetch_gets_no_more_than_the_quota_allows_at_once(tmp_path: Path, quota: float) -> None:
    ask = FetchPartition(partition=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic="t", partitions=[ask])])

    async def live() -> None:
        async with _limited(tmp_path, **{CONSUME: quota}) as (_, client):
            for _ in range(4):
                await client.produce(6_000)
            frame = pack(">hhih", ApiKey.FETCH, 12, 7, 3) + b"app\0" + codec.encode(fetch, 12)
            client.receive(pack(">i", len(frame)) + frame)
            outbox = client.protocol.outbox
            await client.until(lambda: outbox.size > 0)
            assert (outbox.size > 24_000) == (quota > 24_000)
            assert 6_000 < outbox.size < quota + 200

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


def test_topics_that_metadata_creates_are_charged_and_not_created_over_the_quota(
    tmp_path: Path,
) -> None:
    async def live() -> None:
        async with _limited(tmp_path, **{MUTATION: 0.001}) as (node, client):

            async def name(*names: str) -> list[int]:
                topics = [MetadataRequestTopic(name=each) for each in names]
                message = MetadataRequest(topics=topics, allow_auto_topic_creation=True)
                reply = await client.ask(ApiKey.METADATA, 9, message, MetadataResponse)
                return [each.error_code for each in reply.topics]

            await name("a")  # takes more than the quota, and is allowed
            assert "a" in node.image.topics
            assert await name("b", "a") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
            assert "b" not in node.image.topics

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


def test_nothing_of_a_muted_client_is_held_or_handled_after_it_has_gone(tmp_path: Path) -> None:
    async def live() -> None:
        async with _limited(tmp_path, **{PRODUCE: 1000.0}) as (node, client):
            log = node.partitions.find("t", 0).log
            assert (await client.produce(3_000)).throttle_time_ms > 0
            end, tasks = log.end_offset, len(asyncio.all_tasks())
            client.receive(request(8, int(ApiKey.PRODUCE), b"x" * 60_000))
            assert client.handled == [7]
            assert len(asyncio.all_tasks()) == tasks
            client.protocol.close()
            node.quotas.take(PRODUCE, _Asking(client), -1_000_000)
            for _ in range(20):  # what was to be handled would be by then
                await asyncio.sleep(0)
            assert log.end_offset == end
            assert client.handled == [7]

    asyncio.run(live())


def test_a_muted_client_takes_no_room_for_its_next_large_request(tmp_path: Path) -> None:
    async def live() -> None:
        async with _limited(tmp_path, **{PRODUCE: 10_000.0}) as (_, client):
            told = await client.produce(13_000)
            assert told.throttle_time_ms > 0
            large = request(8, int(ApiKey.PRODUCE), b"x" * (50 << 20))
            client.receive(large[: 32 << 10])
            assert not client.protocol.may_receive()
            assert client.protocol._admission._budget.taken == 0
            await client.until(lambda: not client.protocol.waits)
            assert client.protocol.resume_input()
            assert client.protocol._admission._budget.taken > 50 << 20
            client.protocol.close()
            assert client.protocol._admission._budget.taken == 0

    asyncio.run(live())


def test_clients_that_are_not_known_yet_do_not_use_up_each_others_quota(tmp_path: Path) -> None:
    async def live() -> None:
        async with _limited(tmp_path, **{REQUEST: 0.0001}) as (node, _):
            arriving = _Client(node, knows_client=False)
            asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
            for _ in range(3):
                await arriving.ask(ApiKey.API_VERSIONS, 2, asked, ApiVersionsResponse)
                assert not arriving.protocol.waits
            arriving._dispatcher.authenticated(Principal("User", "ANONYMOUS"))
            await arriving.ask(ApiKey.API_VERSIONS, 2, asked, ApiVersionsResponse)
            assert arriving.protocol.waits

    asyncio.run(live())
