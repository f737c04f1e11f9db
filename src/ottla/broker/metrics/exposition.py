"""The metrics as Prometheus text.

The numbers are read and written out piece by piece with a turn of the loop between two, so that a
scrape of a broker with thousands of topics does not hold up its clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ottla.broker.metrics.counters import LATENCY_BUCKETS, Histogram, NetworkMetrics
from ottla.broker.metrics.exporter import (
    gauges,
    group_families,
    in_pieces,
    partition_families,
    size_family,
)
from ottla.broker.metrics.group_lag import EndHistory
from ottla.broker.metrics.loop_watch import LoopWatch
from ottla.broker.metrics.recent import QUANTILES, RecentCounts, quantile
from ottla.broker.metrics.share_families import share_families
from ottla.broker.metrics.sources import MetricsSource
from ottla.metadata.controller import is_controller
from ottla.metadata.elections import NO_LEADER
from ottla.wire.apis import ApiKey

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_TOPIC_COUNTERS: Final = (
    ("bytes_in", "bytesin", "Bytes of records appended by producers."),
    ("bytes_out", "bytesout", "Bytes of records sent to readers."),
    ("messages_in", "messagesin", "Records appended by producers."),
    ("messages_out", "messagesout", "Records sent to readers; Kafka does not count them."),
    ("produces", "totalproducerequests", "Produce requests, counted for each partition."),
    ("fetches", "totalfetchrequests", "Fetch responses, counted for each partition."),
    ("failed_produces", "failedproducerequests", "Produce requests that got an error."),
    ("failed_fetches", "failedfetchrequests", "Fetch requests that got an error."),
)


class Memory:
    """What is kept from one scrape to the next."""

    def __init__(self, network: NetworkMetrics) -> None:
        self.recent = RecentCounts()
        self.ends = EndHistory()
        self.loop = LoopWatch(lambda: self.recent.roll(network.requests))


def families(node: MetricsSource, network: NetworkMetrics, memory: Memory) -> Iterator[Metric]:
    """Every metric, a family at a time; a large one in several pieces with the same name."""
    yield from ProcessCollector(registry=None).collect()
    for attribute, name, text in _TOPIC_COUNTERS:
        name = f"kafka_server_brokertopicmetrics_{name}"
        for some in in_pieces(node.topic_metrics.items()):
            family = CounterMetricFamily(name, text, labels=["topic"])
            for topic, metrics in some:
                family.add_metric([topic], getattr(metrics, attribute))
            yield family
    yield from size_family(node)
    yield from _request_families(network, memory.recent)
    parked = GaugeMetricFamily(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Requests waiting in purgatory.",
        labels=["delayedOperation"],
    )
    parked.add_metric(["Fetch"], node.delayed.fetches)
    parked.add_metric(["Produce"], node.delayed.produces)
    yield parked
    for name, text, value in (*_gauges(node, network, memory.loop), *node.log_cleaner.gauges()):
        yield GaugeMetricFamily(name, text, value=value)
    yield _histogram(
        "ottla_event_loop_delay_seconds",
        "How late timers of the event loop fire.",
        [([], memory.loop.delay)],
        [],
    )
    yield from partition_families(node)
    yield from share_families(node.sharing)
    for name, text, value in (
        (
            "kafka_server_socket_server_metrics_connection_creation",
            "Connections accepted.",
            network.accepted,
        ),
        (
            "kafka_server_socket_server_metrics_failed_authentication",
            "TLS handshakes and logins that failed.",
            network.failed_authentications,
        ),
        (
            "ottla_tls_offloaded_connections",
            "TLS connections that the kernel has encrypted for.",
            network.offloaded,
        ),
        (
            "kafka_server_socket_server_metrics_incoming_byte",
            "Bytes received.",
            network.bytes_received,
        ),
        (
            "kafka_server_socket_server_metrics_outgoing_byte",
            "Bytes of responses.",
            network.bytes_sent,
        ),
        (
            "kafka_server_fetchsessioncache_incrementalfetchsessionevictions",
            "Fetch sessions evicted to make room for new ones.",
            node.fetch_sessions.evictions,
        ),
        (
            "kafka_server_replicamanager_isrshrinks",
            "Replicas removed from the ISR of partitions led by this broker.",
            node.replica_metrics.isr_shrinks,
        ),
        (
            "kafka_server_replicamanager_isrexpands",
            "Replicas added to the ISR of partitions led by this broker.",
            node.replica_metrics.isr_expands,
        ),
        (
            "kafka_controller_controllerstats_uncleanleaderelections",
            "Unclean leader elections while this broker was the controller.",
            node.replica_metrics.unclean_elections,
        ),
        *node.log_cleaner.counters(),
    ):
        yield CounterMetricFamily(name, text, value=value)


def _request_families(network: NetworkMetrics, recent: RecentCounts) -> Iterator[Metric]:
    requests = [(_api_name(key), key, each) for key, each in list(network.requests.items())]
    yield _histogram(
        "kafka_network_requestmetrics_totaltime_seconds",
        "Time from the arrival of a request to its response.",
        [([name], histogram) for name, _, histogram in requests],
        ["request"],
    )
    counted = CounterMetricFamily(
        "kafka_network_requestmetrics_requests", "Requests answered.", labels=["request"]
    )
    for name, _, histogram in requests:
        counted.add_metric([name], sum(histogram.counts))
    yield counted
    lately = [(name, recent.since(key, histogram)) for name, key, histogram in requests]
    yield from gauges(
        "kafka_network_requestmetrics_totaltimems",
        "Milliseconds from the arrival of a request to its response, in the last minute.",
        ("request", "quantile"),
        (
            ((name, str(share)), 1000 * quantile(counts, share))
            for name, counts in lately
            if any(counts)
            for share in QUANTILES
        ),
    )


def _histogram(
    name: str, text: str, rows: Iterable[tuple[list[str], Histogram]], labels: list[str]
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, histogram in rows:
        count = 0
        buckets = []
        for bound, number in zip((*LATENCY_BUCKETS, float("inf")), histogram.counts, strict=True):
            count += number
            buckets.append(("+Inf" if bound == float("inf") else repr(bound), float(count)))
        family.add_metric(values, buckets, histogram.total)
    return family


def _gauges(
    node: MetricsSource, network: NetworkMetrics, loop: LoopWatch
) -> Iterator[tuple[str, str, float]]:
    for name in (
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    ):
        yield (
            name,
            "Fraction of the last ten seconds, 0 to 1, in which the event loop was idle.",
            loop.idle,
        )
    yield (
        "kafka_log_logmanager_offlinelogdirectorycount",
        "1 if partitions of the data folder are offline because its disk failed.",
        int(node.partitions.offline_count() > 0),
    )
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
        "Replicas that stopped replicating because their leader lacks committed records.",
        node.partitions.halted_count(),
    )
    leads, under_replicated, under_min_isr = node.partitions.replication()
    yield "kafka_server_replicamanager_leadercount", "Partitions led by this broker.", leads
    yield (
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Partitions led by this broker with replicas that are not in sync.",
        under_replicated,
    )
    yield (
        "kafka_server_replicamanager_underminisrpartitioncount",
        "Partitions led by this broker with fewer in-sync replicas than min.insync.replicas.",
        under_min_isr,
    )
    yield (
        "kafka_controller_kafkacontroller_activecontrollercount",
        "1 if this broker is the controller.",
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


class _OneFamily(Collector):
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


async def exposition(
    node: MetricsSource, network: NetworkMetrics, memory: Memory | None = None
) -> bytes:
    """All metrics as text."""
    memory = memory or Memory(network)
    found = await node.group_positions()
    now = asyncio.get_running_loop().time()
    parts: list[bytes] = []
    name = ""
    for family in chain(families(node, network, memory), group_families(found, memory.ends, now)):
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_OneFamily(family))
        text = generate_latest(registry)
        parts.append(_without_description(text) if family.name == name else text)
        name = family.name
        await asyncio.sleep(0)
    return b"".join(parts)


def _without_description(text: bytes) -> bytes:
    return b"".join(line for line in text.splitlines(True) if not line.startswith(b"#"))
