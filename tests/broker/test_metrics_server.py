"""The metrics over HTTP: what they say, and that no client of them can hurt the broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.topics import delete_topic
from ottla.broker.metrics import exporter, metrics_server
from ottla.broker.metrics.counters import NetworkMetrics
from ottla.broker.metrics.exposition import Memory, exposition
from ottla.broker.metrics.metrics_server import (
    LONGEST_REQUEST,
    MOST_CONNECTIONS,
    MOST_SCRAPES,
    MetricsServer,
)
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
    """Values by the metric's name and the values of its labels."""
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
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
        ("GET /nothing HTTP/1.0\r\n\r\n", "HTTP/1.1 404 Not Found"),
        ("POST /metrics HTTP/1.0\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
        ("BREW /metrics HTTP/1.0\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
        ("\0\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ("GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request"),  # no Host
        ("GET /healthz?a=b HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 503 Service Unavailable"),
        ("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK"),
        ("GET /healthz HTTP/1.1\r\n" + "a: b\r\n" * LONGEST_REQUEST, "HTTP/1.1 400 Bad Request"),
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
            assert found["kafka_log_log_size", "0,a"] == size
            assert found["kafka_server_replicamanager_partitioncount", ""] == 2
            assert found["kafka_server_replicamanager_offlinereplicacount", ""] == 0
            await delete_topic(node.metadata, "a")
            assert ("kafka_log_log_size", "0,a") not in samples((await get(server, "/metrics"))[1])

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
    monkeypatch.setattr(exporter, "SAMPLES_IN_ONE_TURN", 2)

    async def live() -> None:
        async with running(tmp_path) as node:
            for name in "abcde":
                await topic(node, name)
            text = (await exposition(node, NetworkMetrics())).decode()
            assert text.count("# TYPE kafka_log_log_size gauge") == 1
            assert {name for metric, name in samples(text) if metric == "kafka_log_log_size"} == {
                f"0,{topic}" for topic in "abcde"
            }

    asyncio.run(live())


def test_silent_clients_do_not_starve_the_others(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node, served(node) as server:
            node.ready = True
            silent = [await connect(server) for _ in range(MOST_CONNECTIONS + 5)]
            for path in ("/healthz", "/metrics"):
                assert (await get(server, path))[0] == "HTTP/1.1 200 OK"
            await until(lambda: server.connections <= MOST_CONNECTIONS)
            for _, writer in silent:
                writer.close()
            await until(lambda: server.connections == 0)

    asyncio.run(live())


def test_too_many_scrapes_get_503_while_health_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on = asyncio.Event()

    async def slow(node: BrokerServer, network: NetworkMetrics, memory: Memory) -> bytes:
        await going_on.wait()
        return b"done\n"

    monkeypatch.setattr(metrics_server, "exposition", slow)

    async def live() -> None:
        async with running(tmp_path) as node, served(node) as server:
            node.ready = True
            loop = asyncio.get_running_loop()
            scrapes = [loop.create_task(get(server, "/metrics")) for _ in range(MOST_SCRAPES)]
            await until(lambda: server.connections == MOST_SCRAPES)
            assert await get(server, "/metrics") == (
                "HTTP/1.1 503 Service Unavailable",
                "too many clients\n",
            )
            assert await get(server, "/healthz") == ("HTTP/1.1 200 OK", "ok\n")
            going_on.set()
            assert set(await asyncio.gather(*scrapes)) == {("HTTP/1.1 200 OK", "done\n")}
            assert (await get(server, "/metrics"))[0] == "HTTP/1.1 200 OK"

    asyncio.run(live())


@pytest.mark.parametrize("request_", ["", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_a_client_that_does_not_continue_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: str
) -> None:
    """Whether it sends nothing, or does not take the response."""

    async def long(node: BrokerServer, network: NetworkMetrics, memory: Memory) -> bytes:
        return bytes(64 << 20)

    monkeypatch.setattr(metrics_server, "exposition", long)
    monkeypatch.setattr(metrics_server, "SECONDS_FOR_A_CLIENT", 0.2)

    async def live() -> None:
        async with running(tmp_path) as node, served(node) as server:
            reader, writer = await connect(server)
            writer.write(request_.encode())
            await until(lambda: server.connections == 1)
            await until(lambda: server.connections == 0)
            taken = 0
            try:
                while some := await reader.read(1 << 20):
                    taken += len(some)
            except ConnectionResetError:
                pass
            assert taken < 32 << 20
            writer.close()

    asyncio.run(live())


def test_an_error_is_logged_and_told_without_its_details(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(node: BrokerServer, network: NetworkMetrics, memory: Memory) -> bytes:
        raise RuntimeError("details")

    monkeypatch.setattr(metrics_server, "exposition", broken)

    async def live() -> None:
        async with running(tmp_path) as node, served(node) as server:
            assert await get(server, "/metrics") == (
                "HTTP/1.1 500 Internal Server Error",
                "internal error\n",
            )

    asyncio.run(live())
    written = capsys.readouterr()
    assert "metrics endpoint failed" in written.out + written.err
    assert "Traceback" not in written.out + written.err


def test_all_who_ask_at_once_share_one_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_out = 0

    async def counted(node: BrokerServer, network: NetworkMetrics, memory: Memory) -> bytes:
        nonlocal written_out
        written_out += 1
        await until(lambda: server.connections == 5)
        return await exposition(node, network, memory)

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
