"""The metrics over HTTP: what they say, and that no client of them can hurt the broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.topics import delete_topic
from ottla.broker.metrics import exposition as exposition_module
from ottla.broker.metrics import metrics_server
from ottla.broker.metrics.counters import NetworkMetrics
from ottla.broker.metrics.exposition import exposition
from ottla.broker.metrics.metrics_server import LONGEST_REQUEST, MOST_CLIENTS, MetricsServer
from ottla.wire.apis import ApiKey
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import new_node, running, topic, write

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def served(node: BrokerServer) -> AsyncIterator[MetricsServer]:
    """The metrics of a node, on a free port."""
    server = MetricsServer(node, NetworkMetrics())
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.stop()


async def connect(server: MetricsServer) -> Client:
    return await asyncio.open_connection("127.0.0.1", server.port)


async def ask(server: MetricsServer, request: str) -> tuple[str, str]:
    """Status line and body of the answer; both empty where there is none."""
    reader, writer = await connect(server)
    try:
        writer.write(request.encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    except ConnectionError:
        head = body = ""
    finally:
        writer.close()
    return head.split("\r\n", 1)[0], body


async def get(server: MetricsServer, path: str) -> tuple[str, str]:
    return await ask(server, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")


def samples(text: str) -> dict[tuple[str, str], float]:
    """Values by the metric's name and the value of its only label, if it has one."""
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if len(sample.labels) <= 1
    }


def test_the_health_is_told_as_it_is(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node, served(node) as server:
            assert (await get(server, "/healthz"))[0] == "HTTP/1.1 503 Service Unavailable"
            node.ready = True
            assert await get(server, "/healthz") == ("HTTP/1.1 200 OK", "ok\n")

    asyncio.run(live())


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET /nothing HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
        ("\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
        ("GET /healthz?a=b HTTP/1.1\r\n\r\n", "HTTP/1.1 503 Service Unavailable"),
        ("HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK"),
        ("x" * (2 * LONGEST_REQUEST) + "\r\n\r\n", ""),
    ],
)
def test_every_request_is_answered_or_cut_off(tmp_path: Path, request_: str, status: str) -> None:
    async def live() -> None:
        async with running(tmp_path) as node, served(node) as server:
            assert (await ask(server, request_))[0] == status

    asyncio.run(live())


def test_traffic_and_sizes_are_told_by_topic(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node, served(node) as server:
            write(await topic(node, "a"), count=3)
            await topic(node, "b")
            status, text = await get(server, "/metrics")
            assert status == "HTTP/1.1 200 OK"
            found = samples(text)
            size = node.partitions.find("a", 0).log.size
            assert size > 0
            assert found["kafka_server_brokertopicmetrics_messagesin_total", "a"] == 3
            assert found["kafka_server_brokertopicmetrics_messagesout_total", "a"] == 0
            assert found["kafka_server_brokertopicmetrics_bytesin_total", "a"] == size
            assert found["kafka_server_brokertopicmetrics_messagesin_total", "b"] == 0
            assert found["kafka_log_log_size", "a"] == size
            assert found["kafka_server_replicamanager_partitioncount", ""] == 2
            assert found["kafka_server_replicamanager_offlinereplicacount", ""] == 0
            await delete_topic(node.metadata, "a")
            assert ("kafka_log_log_size", "a") not in samples((await get(server, "/metrics"))[1])

    asyncio.run(live())


def test_latencies_are_told_by_api(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            network = NetworkMetrics()
            for seconds in (0.00005, 0.0001, 0.003, 100.0):
                network.answered(ApiKey.FIND_COORDINATOR, seconds)
            buckets = {
                sample.labels["le"]: sample.value
                for family in text_string_to_metric_families(
                    (await exposition(node, network)).decode()
                )
                for sample in family.samples
                if sample.name == "kafka_network_requestmetrics_totaltime_seconds_bucket"
                and sample.labels["request"] == "FindCoordinator"
            }
            assert buckets["0.0001"] == 2
            assert buckets["0.0025"] == 2
            assert buckets["0.005"] == 3
            assert buckets["30.0"] == 3
            assert buckets["+Inf"] == 4

    asyncio.run(live())


def test_an_offline_partition_is_counted(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            (await topic(node, "a", partitions=2)).log.fail(OSError("broken"))
            found = samples((await exposition(node, NetworkMetrics())).decode())
            assert found["kafka_server_replicamanager_offlinereplicacount", ""] == 1

    asyncio.run(live())


def test_metrics_in_several_pieces_are_one_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposition_module, "TOPICS_IN_ONE_TURN", 2)

    async def live() -> None:
        async with running(tmp_path) as node:
            for name in "abcde":
                await topic(node, name)
            text = (await exposition(node, NetworkMetrics())).decode()
            assert text.count("# TYPE kafka_log_log_size gauge") == 1
            assert {name for metric, name in samples(text) if metric == "kafka_log_log_size"} == {
                *"abcde"
            }

    asyncio.run(live())


def test_clients_past_the_limit_are_sent_away_and_leave_no_trace(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node, served(node) as server:
            silent = [await connect(server) for _ in range(MOST_CLIENTS)]
            await until(lambda: server._clients == MOST_CLIENTS)
            assert await get(server, "/healthz") == ("", "")
            for _, writer in silent:
                writer.close()
            await until(lambda: server._clients == 0)
            assert (await get(server, "/healthz"))[0]

    asyncio.run(live())


def test_a_client_that_says_nothing_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_server, "SECONDS_FOR_A_REQUEST", 0.01)

    async def live() -> None:
        async with running(tmp_path) as node, served(node) as server:
            reader, writer = await connect(server)
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass
            writer.close()
            await until(lambda: server._clients == 0)

    asyncio.run(live())


def test_all_who_ask_at_once_share_one_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_out = 0

    async def counted(node: BrokerServer, network: NetworkMetrics) -> bytes:
        nonlocal written_out
        written_out += 1
        await until(lambda: server._clients == 5)
        return await exposition(node, network)

    server: MetricsServer
    monkeypatch.setattr(metrics_server, "exposition", counted)

    async def live() -> None:
        nonlocal server
        async with running(tmp_path) as node, served(node) as server:
            answers = await asyncio.gather(*(get(server, "/metrics") for _ in range(5)))
            assert len(set(answers)) == 1
            assert written_out == 1

    asyncio.run(live())


def test_metrics_are_served_before_the_broker_is_started(tmp_path: Path) -> None:
    async def go() -> None:
        node = new_node(tmp_path)
        await node.open()
        try:
            async with served(node) as server:
                assert (await get(server, "/healthz"))[0] == "HTTP/1.1 503 Service Unavailable"
                status, text = await get(server, "/metrics")
                assert status == "HTTP/1.1 200 OK"
                assert samples(text)["kafka_server_replicamanager_partitioncount", ""] == 0
        finally:
            await node.close()

    asyncio.run(go())
