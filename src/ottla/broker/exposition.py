"""The metrics as Prometheus text, and a small HTTP server for them and for /healthz.

The numbers are read and written out family by family with a turn of the loop between two, so
that a scrape of a broker with thousands of topics does not hold up its clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ottla.broker.metrics import LATENCY_BUCKETS, NetworkMetrics
from ottla.wire.apis import ApiKey

if TYPE_CHECKING:
    from ottla.broker.node import Node

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS_FOR_A_REQUEST: Final = 5.0
LONGEST_REQUEST: Final = 8 << 10

_TOPIC_COUNTERS: Final = (
    ("bytes_in", "bytesin", "Bytes of records appended by producers."),
    ("bytes_out", "bytesout", "Bytes of records sent to readers."),
    ("messages_in", "messagesin", "Records appended by producers."),
    ("produces", "totalproducerequests", "Produce requests, counted for each partition."),
    ("fetches", "totalfetchrequests", "Fetch answers, counted for each partition."),
    ("failed_produces", "failedproducerequests", "Produce requests that got an error."),
    ("failed_fetches", "failedfetchrequests", "Fetch requests that got an error."),
)


def families(node: Node, network: NetworkMetrics) -> Iterator[Metric]:
    """Every metric, a family at a time."""
    for attribute, name, text in _TOPIC_COUNTERS:
        family = CounterMetricFamily(
            f"kafka_server_brokertopicmetrics_{name}", text, labels=["topic"]
        )
        for topic, metrics in list(node.topic_metrics.items()):
            family.add_metric([topic], getattr(metrics, attribute))
        yield family
    sizes = GaugeMetricFamily("kafka_log_log_size", "Bytes of the topic's logs.", labels=["topic"])
    for topic, size in node.partitions.sizes().items():
        sizes.add_metric([topic], size)
    yield sizes
    latency = HistogramMetricFamily(
        "kafka_network_requestmetrics_totaltime_seconds",
        "From a request's arrival to its answer.",
        labels=["request"],
    )
    for key, histogram in list(network.requests.items()):
        count = 0
        buckets = []
        for bound, number in zip((*LATENCY_BUCKETS, float("inf")), histogram.counts, strict=True):
            count += number
            buckets.append(("+Inf" if bound == float("inf") else repr(bound), float(count)))
        latency.add_metric([_api_name(key)], buckets, histogram.total)
    yield latency
    parked = GaugeMetricFamily(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Requests that wait.",
        labels=["delayedOperation"],
    )
    parked.add_metric(["Fetch"], node.parked_fetches)
    yield parked
    for name, text, value in (*_gauges(node, network), *node.cleaner.gauges()):
        yield GaugeMetricFamily(name, text, value=value)
    for name, text, value in (
        (
            "kafka_server_socket_server_metrics_connection_creation",
            "Connections accepted.",
            network.accepted,
        ),
        (
            "kafka_server_socket_server_metrics_incoming_byte",
            "Bytes received.",
            network.bytes_received,
        ),
        (
            "kafka_server_socket_server_metrics_outgoing_byte",
            "Bytes of replies.",
            network.bytes_sent,
        ),
        (
            "kafka_server_fetchsessioncache_incrementalfetchsessionevictions",
            "Fetch sessions that made room for another.",
            node.fetch_sessions.evictions,
        ),
        *node.cleaner.counters(),
    ):
        yield CounterMetricFamily(name, text, value=value)


def _gauges(node: Node, network: NetworkMetrics) -> Iterator[tuple[str, str, float]]:
    yield (
        "kafka_server_socket_server_metrics_connection_count",
        "Open connections.",
        network.connections,
    )
    yield (
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "Fetch sessions in the cache.",
        len(node.fetch_sessions),
    )
    yield (
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        "Partitions in cached fetch sessions.",
        node.fetch_sessions.partition_count,
    )
    yield "kafka_server_replicamanager_partitioncount", "Partitions here.", len(node.partitions)
    yield (
        "kafka_server_replicamanager_offlinereplicacount",
        "Partitions that are offline because their disk failed.",
        node.partitions.offline_count(),
    )
    yield "kafka_controller_kafkacontroller_globaltopiccount", "Topics.", len(node.image.topics)


def _api_name(key: int) -> str:
    return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))


class _OneFamily(Collector):
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


async def exposition(node: Node, network: NetworkMetrics) -> bytes:
    """All metrics as text."""
    parts: list[bytes] = []
    for family in families(node, network):
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_OneFamily(family))
        parts.append(generate_latest(registry))
        await asyncio.sleep(0)
    return b"".join(parts)


class MetricsServer:
    """Serves /metrics and /healthz over HTTP/1.1, one request a connection."""

    def __init__(self, node: Node, network: NetworkMetrics) -> None:
        self._node = node
        self._network = network
        self._server: asyncio.Server | None = None
        self.port = -1

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes a free one. Raises OSError."""
        self._server = await asyncio.start_server(
            self._on_client, host, port, limit=LONGEST_REQUEST
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(SECONDS_FOR_A_REQUEST):
                head = await reader.readuntil(b"\r\n\r\n")
                status, kind, body = await self._answer(head.split(b"\r\n", 1)[0])
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                )
                if not head.startswith(b"HEAD "):
                    writer.write(body)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def _answer(self, request_line: bytes) -> tuple[str, str, bytes]:
        words = request_line.split()
        if len(words) < 2 or words[0] not in (b"GET", b"HEAD"):
            return "405 Method Not Allowed", "text/plain", b"only GET\n"
        path = words[1].split(b"?", 1)[0]
        if path == b"/metrics":
            return "200 OK", CONTENT_TYPE, await exposition(self._node, self._network)
        if path == b"/healthz":
            if self._node.ready:
                return "200 OK", "text/plain", b"ok\n"
            return "503 Service Unavailable", "text/plain", b"starting or stopping\n"
        return "404 Not Found", "text/plain", b"try /metrics or /healthz\n"
