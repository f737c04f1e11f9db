"""Dashboards and alert rules that people have find the names they ask for.

The lists are the names, as of 2026, that the public dashboards and rules use: those of Strimzi for
Kafka and for Kafka Exporter, and the dashboard 7589 of Grafana. What is left out has no meaning
here: the JVM, KRaft, ZooKeeper's client in Kafka, Kubernetes' own metrics.
"""

import asyncio
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.metrics import exporter
from ottla.broker.metrics.counters import NetworkMetrics
from ottla.broker.metrics.exposition import exposition
from ottla.client import Client, Producer, TopicPartition
from ottla.client.group_admin import GroupAdmin
from ottla.embedded import Broker
from ottla.wire.apis import ApiKey
from tests.broker.nodes import running, topic, write
from tests.server.inside import running as inside

STRIMZI_RULES = [
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_server_replicamanager_underminisrpartitioncount",
    "kafka_log_logmanager_offlinelogdirectorycount",
    "kafka_topic_partition_under_replicated_partition",
    "kafka_consumergroup_lag",
    "kafka_topic_partition_current_offset",
]
STRIMZI_DASHBOARDS = [
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_offlinereplicacount",
    "kafka_server_replicamanager_isrshrinks_total",
    "kafka_server_replicamanager_isrexpands_total",
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "kafka_network_requestmetrics_requests_total",
    "kafka_network_requestmetrics_totaltimems",
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "kafka_server_socket_server_metrics_connection_count",
    "kafka_log_log_size",
    "kafka_cluster_partition_underminisr",
    "kafka_cluster_partition_atminisr",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_max_fds",
    "process_start_time_seconds",
]
KAFKA_EXPORTER = [
    "kafka_brokers",
    "kafka_topic_partitions",
    "kafka_topic_partition_oldest_offset",
    "kafka_topic_partition_leader",
    "kafka_topic_partition_leader_is_preferred",
    "kafka_topic_partition_replicas",
    "kafka_topic_partition_in_sync_replica",
    "kafka_consumergroup_current_offset",
    "kafka_consumergroup_current_offset_sum",
    "kafka_consumergroup_lag_sum",
    "kafka_consumergroup_members",
]
GRAFANA_7589 = [
    "kafka_topic_partition_current_offset",
    "kafka_consumergroup_current_offset",
    "kafka_consumergroup_lag",
    "kafka_topic_partitions",
]
OUR_OWN = [
    "kafka_consumergroup_lag_seconds",
    "ottla_event_loop_delay_seconds_bucket",
    "ottla_metrics_left_out_partitions",
    "ottla_metrics_left_out_positions",
]


def test_what_dashboards_ask_for_is_there() -> None:
    with (
        Broker(ottla_metrics_port=0) as broker,
        Client(broker.bootstrap_servers) as client,
    ):
        with Producer(client) as producer:
            for number in range(5):
                producer.send("t", b"%d" % number, partition=0)
        GroupAdmin(client).commit_offsets("g", {TopicPartition("t", 0): 2})
        metrics = inside(broker).metrics
        assert metrics is not None
        with urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=20) as response:
            text = response.read().decode()
    found = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    names = {name for name, _ in found}
    for wanted in (STRIMZI_RULES, STRIMZI_DASHBOARDS, KAFKA_EXPORTER, GRAFANA_7589, OUR_OWN):
        assert [name for name in wanted if name not in names] == []
    place = (("partition", "0"), ("topic", "t"))
    of_group = (("consumergroup", "g"), *place)
    assert found["kafka_topic_partition_current_offset", place] == 5
    assert found["kafka_consumergroup_current_offset", of_group] == 2
    assert found["kafka_consumergroup_lag", of_group] == 3
    assert found["kafka_consumergroup_lag_seconds", of_group] >= 0
    quantiles = [
        dict(labels)["quantile"]
        for name, labels in found
        if name == "kafka_network_requestmetrics_totaltimems"
        and dict(labels)["request"] == "Produce"
    ]
    assert quantiles == ["0.5", "0.75", "0.95", "0.98", "0.99", "0.999"]


def test_partitions_past_the_limit_are_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "MOST_PARTITIONS", 3)

    async def live() -> None:
        async with running(tmp_path) as node:
            write(await topic(node, "a", partitions=5), count=3)
            text = (await exposition(node, NetworkMetrics())).decode()
            lines = text.splitlines()
            offsets = [x for x in lines if x.startswith("kafka_topic_partition_current_offset{")]
            assert len(offsets) == 3
            assert "ottla_metrics_left_out_partitions 2.0" in lines
            size = sum(each.log.size for each in node.partitions)
            assert f'kafka_log_log_size{{partition="",topic="a"}} {float(size)}' in lines

    asyncio.run(live())


def test_a_request_that_came_has_its_quantiles_in_milliseconds(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            network = NetworkMetrics()
            network.answered(ApiKey.FETCH, 0.4)
            text = (await exposition(node, network)).decode()
            (line,) = [x for x in text.splitlines() if 'quantile="0.99",request="Fetch"' in x]
            assert 250 < float(line.split()[-1]) <= 500

    asyncio.run(live())
