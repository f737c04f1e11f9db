"""Consumers read from a replica of their own rack (KIP-392)."""

from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from ottla.wire.errors import ErrorCode
from testkit.cluster import ClusterProcesses
from testkit.server import free_port
from testkit.waiting import until

from .writing import Writer, metric, produce_to

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def test_a_consumer_reads_from_its_rack(tmp_path: Path) -> None:
    settings = {"replica.selector.class": SELECTOR}
    cluster = ClusterProcesses(tmp_path, settings=settings)
    for number, broker in enumerate(cluster.brokers):
        broker.settings["broker.rack"] = f"rack-{number}"
        broker.settings["ottla.metrics.port"] = str(free_port())
    with cluster:
        topic = cluster.create("near")
        writer = Writer(cluster)
        writer.write(topic, 100)
        writer.flush()
        leader = cluster.partition(topic).leader_id
        near = (leader + 1) % 3
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "near",
                "client.rack": f"rack-{near}",
                "fetch.wait.max.ms": 100,
            }
        )
        found: list[bytes] = []
        try:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

            def have(count: int) -> bool:
                batch = consumer.consume(100, 0.2)
                found.extend(each.value() or b"" for each in batch if not each.error())
                return len(found) >= count

            until(lambda: have(100), "all is read")
            assert found == [b"%d" % each for each in range(100)]
            # What is written while it reads there comes, too.
            writer.write(topic, 10)
            writer.flush()
            until(lambda: have(110), "the rest is read")
        finally:
            consumer.close()
        served = {
            number: metric(broker, "kafka_server_brokertopicmetrics_bytesout_total", topic=topic)
            for number, broker in enumerate(cluster.brokers)
        }
        assert served.pop(near) >= len(cluster.log_bytes(leader, topic))
        assert set(served.values()) == {0}, "the leader has sent it nothing"
        # The follower still refuses to be written to.
        result, _ = produce_to(cluster.brokers[near], topic)
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
