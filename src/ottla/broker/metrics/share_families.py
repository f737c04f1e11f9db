"""The metrics of share groups, by Kafka's names."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric

from ottla.broker.metrics.share_counts import SharingView

LABELS = ("group", "topic", "partition")


def share_families(sharing: SharingView) -> Iterator[Metric]:
    """The families of share groups."""
    counts = sharing.counts()
    for name, text, value in (
        ("sharesessionscount", "Share sessions.", counts.sessions),
        ("sharepartitionscount", "Partitions of share sessions.", counts.session_partitions),
    ):
        yield GaugeMetricFamily(f"kafka_server_sharesessioncache_{name}", text, value=value)
    yield CounterMetricFamily(
        "kafka_server_sharesessioncache_sharesessionevictions",
        "Share sessions that ended with their connection.",
        value=counts.session_evictions,
    )
    yield CounterMetricFamily(
        "kafka_server_delayedsharefetchmetrics_expires",
        "Share fetches that timed out before there were enough records.",
        value=counts.expired_fetches,
    )
    acknowledged = CounterMetricFamily(
        "kafka_server_sharegroupmetrics_recordacknowledgements",
        "Records that were acknowledged.",
        labels=["ackType"],
    )
    for kind, records in counts.acknowledged.items():
        acknowledged.add_metric([kind], records)
    yield acknowledged
    yield SummaryMetricFamily(
        "kafka_server_sharegroupmetrics_partitionloadtimems",
        "Time taken to load share partitions.",
        count_value=counts.loads,
        sum_value=counts.load_ms,
    )
    yield from _partition_families(sharing)


def _partition_families(sharing: SharingView) -> Iterator[Metric]:
    prefix = "kafka_server_sharepartitionmetrics"
    messages = GaugeMetricFamily(
        f"{prefix}_inflightmessagecount", "Records in flight.", labels=LABELS
    )
    batches = GaugeMetricFamily(
        f"{prefix}_inflightbatchcount", "Batches of records in flight.", labels=LABELS
    )
    timeouts = CounterMetricFamily(
        f"{prefix}_acquisitionlocktimeout", "Records whose acquisition lock expired.", labels=LABELS
    )
    for each in sharing.partition_counts():
        labels = [each.group, each.topic, str(each.partition)]
        messages.add_metric(labels, each.messages)
        batches.add_metric(labels, each.batches)
        timeouts.add_metric(labels, each.lock_timeouts)
    yield from (messages, batches, timeouts)
