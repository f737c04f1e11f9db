"""The metrics that kafka_exporter serves for Kafka, under its names: dashboards for it work.

Rules kept here:
1. Over all brokers of a cluster each sample is there once: a partition is reported by its leader, a
   group by its coordinator, and what concerns the cluster by the controller.
2. The number of samples is bounded; what is left out is counted (`ottla_metrics_left_out`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

from prometheus_client.core import GaugeMetricFamily, Metric

from ottla.broker.metrics.group_lag import EndHistory, GroupPositions, lag_of
from ottla.broker.metrics.sources import MetricsSource, PartitionView
from ottla.metadata.controller import is_controller

T = TypeVar("T")
Row = tuple[Sequence[str], float]

MOST_PARTITIONS: Final = 2_000
"""Partitions that have samples of their own."""
SAMPLES_IN_ONE_TURN: Final = 200
_PARTITION: Final = ("topic", "partition")
_POSITION: Final = ("consumergroup", "topic", "partition")
_GROUP_TOPIC: Final = ("consumergroup", "topic")


def in_pieces(items: Iterable[T]) -> Iterator[tuple[T, ...]]:
    """Some at a time, and at least once: a family without samples still has its description."""
    rest = iter(list(items))
    yield tuple(islice(rest, SAMPLES_IN_ONE_TURN))
    while some := tuple(islice(rest, SAMPLES_IN_ONE_TURN)):
        yield some


def gauges(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> Iterator[Metric]:
    """A family of gauges, in pieces."""
    for some in in_pieces(rows):
        family = GaugeMetricFamily(name, text, labels=labels)
        for values, value in some:
            family.add_metric(values, value)
        yield family


def partition_families(node: MetricsSource) -> Iterator[Metric]:
    """Of the partitions that are led here."""
    led = [partition for partition in node.partitions if partition.leads]
    shown = led[:MOST_PARTITIONS]
    for name, text, value in (
        ("current_offset", "End of the partition: its high watermark.", lambda p: p.high_watermark),
        ("oldest_offset", "First offset of the partition.", lambda p: p.log.start_offset),
        ("leader", "The broker that leads the partition.", lambda _: node.id),
        ("replicas", "Replicas of the partition.", _replicas),
        ("in_sync_replica", "Replicas of the partition that are in sync.", _in_sync),
        (
            "leader_is_preferred",
            "1 if the preferred replica leads.",
            lambda p: int(_assigned(node, p)[:1] == [node.id]),
        ),
        (
            "under_replicated_partition",
            "1 if not all replicas are in sync.",
            lambda p: int(_in_sync(p) < _replicas(p)),
        ),
    ):
        rows = ((_key(each), value(each)) for each in shown)
        yield from gauges(f"kafka_topic_partition_{name}", text, _PARTITION, rows)
    yield from gauges(
        "kafka_cluster_partition_underminisr",
        "1 if fewer than min.insync.replicas are in sync.",
        _PARTITION,
        ((_key(each), int(_in_sync(each) < _least(each))) for each in shown),
    )
    yield from gauges(
        "kafka_cluster_partition_atminisr",
        "1 if exactly min.insync.replicas are in sync.",
        _PARTITION,
        ((_key(each), int(_in_sync(each) == _least(each))) for each in shown),
    )
    yield from gauges(
        "kafka_log_log_logendoffset",
        "End of this broker's log of the partition.",
        _PARTITION,
        ((_key(each), each.log.end_offset) for each in shown),
    )
    yield from _cluster_families(node)
    yield GaugeMetricFamily(
        "ottla_metrics_left_out_partitions",
        "Partitions led by this broker without samples of their own: there are too many.",
        value=len(led) - len(shown),
    )


def size_family(node: MetricsSource) -> Iterator[Metric]:
    """Bytes of every log here; where partitions are too many, by topic, with no partition."""
    rows: Iterable[Row]
    if len(node.partitions) <= MOST_PARTITIONS:
        rows = ((_key(each), each.log.size) for each in node.partitions)
    else:
        rows = (((topic, ""), size) for topic, size in node.partitions.sizes().items())
    yield from gauges("kafka_log_log_size", "Bytes of the partition's log.", _PARTITION, rows)


def group_families(found: GroupPositions, history: EndHistory, now: float) -> Iterator[Metric]:
    """Of the groups that are coordinated here."""
    history.saw(found.ends, now)
    lags = [
        lag_of(each, found.ends[each.topic, each.partition], history, now)
        for each in found.positions
        if (each.topic, each.partition) in found.ends
    ]
    offsets: list[Row] = [
        ((each.group, each.topic, str(each.partition)), each.offset) for each in found.positions
    ]
    behind = [
        ((of.group, of.topic, str(of.partition)), messages, seconds)
        for of, messages, seconds in lags
    ]
    yield from gauges(
        "kafka_consumergroup_current_offset",
        "Committed offset of a group in a partition.",
        _POSITION,
        offsets,
    )
    yield from gauges(
        "kafka_consumergroup_lag",
        "Messages between a group's committed offset and the end of the partition.",
        _POSITION,
        ((key, messages) for key, messages, _ in behind),
    )
    yield from gauges(
        "kafka_consumergroup_lag_seconds",
        "Age of the first message in the partition that the group has not committed.",
        _POSITION,
        ((key, seconds) for key, _, seconds in behind),
    )
    yield from gauges(
        "kafka_consumergroup_current_offset_sum",
        "Sum of a group's committed offsets in a topic.",
        _GROUP_TOPIC,
        _summed(offsets),
    )
    yield from gauges(
        "kafka_consumergroup_lag_sum",
        "Sum of a group's lag over the partitions of a topic.",
        _GROUP_TOPIC,
        _summed([(key, messages) for key, messages, _ in behind]),
    )
    yield from gauges(
        "kafka_consumergroup_members",
        "Members of a group.",
        ("consumergroup",),
        (((group,), count) for group, count in found.members.items()),
    )
    yield GaugeMetricFamily(
        "ottla_metrics_left_out_positions",
        "Committed offsets of groups that have no sample: there are too many.",
        value=found.left_out,
    )


def _cluster_families(node: MetricsSource) -> Iterator[Metric]:
    here = is_controller(node.image, node.id, node.broker_epoch)
    yield from gauges(
        "kafka_brokers", "Brokers of the cluster.", (), [((), len(node.image.brokers))] * here
    )
    topics = node.image.topics.values() if here else ()
    yield from gauges(
        "kafka_topic_partitions",
        "Partitions of a topic.",
        ("topic",),
        (((topic.name,), len(topic.assignment)) for topic in topics),
    )


def _summed(rows: Iterable[Row]) -> list[Row]:
    sums: dict[tuple[str, ...], float] = {}
    for (group, topic, _), value in rows:
        sums[group, topic] = sums.get((group, topic), 0) + value
    return list(sums.items())


def _key(partition: PartitionView) -> tuple[str, str]:
    return partition.topic, str(partition.index)


def _assigned(node: MetricsSource, partition: PartitionView) -> list[int]:
    topic = node.image.topics.get(partition.topic)
    return topic.assignment[partition.index] if topic is not None else []


def _replicas(partition: PartitionView) -> int:
    return 1 if partition.leadership is None else len(partition.leadership.replicas)


def _in_sync(partition: PartitionView) -> int:
    return 1 if partition.leadership is None else len(partition.leadership.isr)


def _least(partition: PartitionView) -> int:
    leadership = partition.leadership
    return 1 if leadership is None else min(leadership.min_isr, len(leadership.replicas))
