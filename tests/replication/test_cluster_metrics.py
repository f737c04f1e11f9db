"""Metrics of a cluster: each sample once over all brokers, and lag wherever a partition is led."""

import json
from pathlib import Path
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from ottla.client import Client, Producer, TopicPartition
from ottla.client.group_admin import GroupAdmin
from testkit.cluster import ClusterProcesses
from testkit.process import BrokerProcess
from testkit.waiting import until

PARTITIONS = 6
Sample = tuple[str, tuple[tuple[str, str], ...]]


def scraped(broker: BrokerProcess) -> dict[Sample, float]:
    """What a broker serves; its port is in its log."""
    (port,) = [
        event["port"]
        for event in map(json.loads, broker.log_text().splitlines())
        if event["event"] == "metrics endpoint started"
    ]
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        text = response.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(name: str, scrapes: list[dict[Sample, float]]) -> list[tuple[str, float]]:
    """The samples of a name from all brokers, with their partition."""
    return sorted(
        (dict(labels).get("partition", ""), value)
        for scrape in scrapes
        for (found, labels), value in scrape.items()
        if found == name and dict(labels).get("topic", "t") == "t"
    )


def test_lag_is_reported_once_also_where_another_broker_leads(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, 3, {"ottla.metrics.port": "0"}) as cluster:
        cluster.create("t", partitions=PARTITIONS)
        cluster.until_in_sync("t")
        with Client(cluster.bootstrap) as client:
            with Producer(client) as producer:
                for number in range(PARTITIONS * 5):
                    producer.send("t", b"x", partition=number % PARTITIONS)
            places = {TopicPartition("t", number): number % 3 for number in range(PARTITIONS)}
            GroupAdmin(client).commit_offsets("g", places)
        scrapes = [scraped(broker) for broker in cluster.brokers]
        assert of("kafka_consumergroup_lag", scrapes) == [
            (str(number), 5 - number % 3) for number in range(PARTITIONS)
        ]
        assert of("kafka_topic_partition_current_offset", scrapes) == [
            (str(number), 5) for number in range(PARTITIONS)
        ]
        assert of("kafka_topic_partitions", scrapes) == [("", PARTITIONS)]
        assert of("kafka_brokers", scrapes) == [("", 3)]
        leaders = [count for _, count in of("kafka_topic_partition_leader", scrapes)]
        assert len(set(leaders)) == 3, "no broker leads all partitions, so some had to be asked"

        cluster.kill(2)
        cluster.start(2)
        until(
            lambda: (
                sum(
                    value
                    for broker in cluster.brokers[:2]
                    for (name, _), value in scraped(broker).items()
                    if name == "kafka_server_replicamanager_isrexpands_total"
                )
                > 0
            ),
            "the broker is in sync again, and that is counted",
        )
