"""The metrics as Prometheus text.

The numbers are read and written out piece by piece with a turn of the loop between two, so that a
scrape of a broker with thousands of topics does not hold up its clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ottla.broker.metrics.counters import LATENCY_BUCKETS, NetworkMetrics
from ottla.broker.metrics.sources import MetricsSource
from ottla.metadata.controller import is_controller
from ottla.metadata.elections import NO_LEADER
from ottla.wire.apis import ApiKey

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
TOPICS_IN_ONE_TURN: Final = 200
T = TypeVar("T")

_TOPIC_COUNTERS: Final = (
    ("bytes_in", "bytesin", "Bytes of records appended by producers."),
    ("bytes_out", "bytesout", "Bytes of records sent to readers."),
    ("messages_in", "messagesin", "Records appended by producers."),
    ("messages_out", "messagesout", "Records sent to readers; Kafka does not count them."),
    ("produces", "totalproducerequests", "Produce requests, counted for each partition."),
    ("fetches", "totalfetchrequests", "Fetch answers, counted for each partition."),
    ("failed_produces", "failedproducerequests", "Produce requests that got an error."),
    ("failed_fetches", "failedfetchrequests", "Fetch requests that got an error."),
)


def families(node: MetricsSource, network: NetworkMetrics) -> Iterator[Metric]:
    """Every metric, a family at a time; a large one in several pieces with the same name."""
    for attribute, name, text in _TOPIC_COUNTERS:
        name = f"kafka_server_brokertopicmetrics_{name}"
        for some in _in_pieces(node.topic_metrics.items()):
            family = CounterMetricFamily(name, text, labels=["topic"])
            for topic, metrics in some:
                family.add_metric([topic], getattr(metrics, attribute))
            yield family
    for sizes in _in_pieces(node.partitions.sizes().items()):
        gauges = GaugeMetricFamily(
            "kafka_log_log_size", "Bytes of the topic's logs.", labels=["topic"]
        )
        for topic, size in sizes:
            gauges.add_metric([topic], size)
        yield gauges
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
    parked.add_metric(["Fetch"], node.delayed.fetches)
    parked.add_metric(["Produce"], node.delayed.produces)
    yield parked
    for name, text, value in (*_gauges(node, network), *node.log_cleaner.gauges()):
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
        *node.log_cleaner.counters(),
    ):
        yield CounterMetricFamily(name, text, value=value)


def _gauges(node: MetricsSource, network: NetworkMetrics) -> Iterator[tuple[str, str, float]]:
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
    yield (
        "ottla_server_replicamanager_haltedreplicacount",
        "Replicas that do not copy because their leader lacks committed records that they have.",
        node.partitions.halted_count(),
    )
    leads, under_replicated, under_min_isr = node.partitions.replication()
    yield "kafka_server_replicamanager_leadercount", "Partitions that are led here.", leads
    yield (
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Partitions that are led here and have replicas that are not in sync.",
        under_replicated,
    )
    yield (
        "kafka_server_replicamanager_underminisrpartitioncount",
        "Partitions that are led here and have fewer replicas in sync than min.insync.replicas.",
        under_min_isr,
    )
    yield (
        "kafka_controller_kafkacontroller_activecontrollercount",
        "1 where this broker is the controller.",
        int(is_controller(node.image, node.id, node.broker_epoch)),
    )
    yield (
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "Partitions of the cluster without a leader.",
        sum(state.leader == NO_LEADER for state in node.image.partitions.values()),
    )
    yield "kafka_controller_kafkacontroller_activebrokercount", "Brokers.", len(node.image.brokers)
    yield "kafka_controller_kafkacontroller_globaltopiccount", "Topics.", len(node.image.topics)


def _api_name(key: int) -> str:
    return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))


def _in_pieces(items: Iterable[T]) -> Iterator[tuple[T, ...]]:
    """Some at a time, and at least once: a family without samples still has its description."""
    rest = iter(list(items))
    yield tuple(islice(rest, TOPICS_IN_ONE_TURN))
    while some := tuple(islice(rest, TOPICS_IN_ONE_TURN)):
        yield some


class _OneFamily(Collector):
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


async def exposition(node: MetricsSource, network: NetworkMetrics) -> bytes:
    """All metrics as text."""
    parts: list[bytes] = []
    name = ""
    for family in families(node, network):
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_OneFamily(family))
        text = generate_latest(registry)
        parts.append(_without_description(text) if family.name == name else text)
        name = family.name
        await asyncio.sleep(0)
    return b"".join(parts)


def _without_description(text: bytes) -> bytes:
    return b"".join(line for line in text.splitlines(True) if not line.startswith(b"#"))
