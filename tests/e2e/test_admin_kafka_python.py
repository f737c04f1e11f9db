"""The admin requests of kafka-python."""

from collections.abc import Callable, Iterator

import pytest
from kafka import (  # type: ignore[import-untyped]  # kafka-python ships no types
    KafkaAdminClient,
    TopicPartition,
)
from kafka.admin import (  # type: ignore[import-untyped]  # as above
    ConfigResource,
    ConfigResourceType,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from kafka.errors import (  # type: ignore[import-untyped]  # as above
    InvalidPartitionsError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from testkit.clients.base import Message
from testkit.clients.kafka_python import KafkaPython
from tests.e2e.conftest import Eventually, Topics


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield admin
    admin.close()


def of_topic(topic: str, **configs: str) -> ConfigResource:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    return ConfigResource(ConfigResourceType.TOPIC, topic, configs=named or None)


def test_create_tells_what_the_topic_is_like(
    admin: KafkaAdminClient, new_name: Callable[[], str]
) -> None:
    name = new_name()
    answer = admin.create_topics([NewTopic(name, 3, 1, topic_configs={"retention.ms": "5555"})])
    (created,) = answer["topics"]
    assert (created["num_partitions"], created["replication_factor"]) == (3, 1)
    assert created["configs"]["retention.ms"]["value"] == "5555"
    assert created["configs"]["cleanup.policy"]["value"] == "delete"
    (found,) = admin.describe_topics([name])
    assert str(found["topic_id"]) == str(created["topic_id"])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(name, 3, 1)])


def test_list_and_describe(admin: KafkaAdminClient, new_topic: Topics) -> None:
    topic = new_topic(partitions=2)
    assert topic in admin.list_topics()
    (found,) = admin.describe_topics([topic])
    assert [partition["partition_index"] for partition in found["partitions"]] == [0, 1]
    paged = admin.describe_topic_partitions([topic])["topics"][0]
    assert [partition["leader_epoch"] for partition in paged["partitions"]] == [0, 0]


def test_topics_are_described_page_by_page(admin: KafkaAdminClient, new_topic: Topics) -> None:
    topic = new_topic(partitions=5)
    first = admin.describe_topic_partitions([topic], response_partition_limit=3)
    assert [p["partition_index"] for p in first["topics"][0]["partitions"]] == [0, 1, 2]
    cursor = first["next_cursor"]
    assert (cursor["topic_name"], cursor["partition_index"]) == (topic, 3)


def test_describe_cluster(admin: KafkaAdminClient, bootstrap: str) -> None:
    found = admin.describe_cluster()
    (node,) = found["brokers"]
    assert f"{node['host']}:{node['port']}" == bootstrap
    assert found["controller_id"] == node["broker_id"]
    assert found["cluster_id"]


def test_log_dirs_tell_the_size_of_each_partition(
    admin: KafkaAdminClient, bootstrap: str, topic: str
) -> None:
    def size() -> int:
        (broker,) = admin.describe_log_dirs()
        (folder,) = broker["log_dirs"]
        (found,) = [entry for entry in folder["topics"] if entry["name"] == topic]
        return int(found["partitions"][0]["partition_size"])

    assert size() == 0
    KafkaPython(bootstrap).produce(topic, [Message(b"x" * 1000, partition=0)])
    assert 1000 < size() < 1200


def test_configs_are_set_and_reset(admin: KafkaAdminClient, topic: str) -> None:
    def changed() -> dict[str, str]:
        found = admin.describe_configs([of_topic(topic)])["topic"][topic]
        return {name: entry["value"] for name, entry in found.items()}

    assert changed() == {}
    admin.alter_configs([of_topic(topic, retention_ms="1000000")])
    admin.alter_configs([of_topic(topic, segment_bytes="2000000")])
    assert changed() == {"retention.ms": "1000000", "segment.bytes": "2000000"}
    admin.alter_configs([of_topic(topic, retention_ms="7")], incremental=False)
    assert changed() == {"retention.ms": "7", "segment.bytes": "2000000"}
    admin.reset_configs([of_topic(topic, retention_ms="")])
    assert changed() == {"segment.bytes": "2000000"}


def test_configs_come_with_their_types_and_synonyms(admin: KafkaAdminClient, topic: str) -> None:
    answer = admin.describe_configs([of_topic(topic)], include_synonyms=True, config_filter="all")
    found = answer["topic"][topic]
    retention = found["retention.ms"]
    assert retention["config_type"] == "LONG"
    assert retention["config_source"] == "DEFAULT_CONFIG"
    assert found["cleanup.policy"]["config_type"] == "LIST"
    assert found["segment.bytes"]["synonyms"] == [
        {"name": "log.segment.bytes", "value": "1073741824", "source": "DEFAULT_CONFIG"}
    ]


def test_what_has_configs_is_listed(admin: KafkaAdminClient, topic: str) -> None:
    found = admin.list_config_resources()
    assert topic in found["topic"]
    assert len(found["broker"]) == 1


def test_partitions_can_be_added(
    admin: KafkaAdminClient, topic: str, eventually: Eventually
) -> None:
    admin.create_partitions({topic: NewPartitions(4)})
    assert eventually(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 4)
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: NewPartitions(4)})


def test_offsets_and_deleted_records(admin: KafkaAdminClient, bootstrap: str, topic: str) -> None:
    KafkaPython(bootstrap).produce(topic, [Message(partition=0)] * 10)
    place = TopicPartition(topic, 0)
    assert admin.delete_records({place: 4})[place]["low_watermark"] == 4
    assert admin.list_partition_offsets({place: OffsetSpec.EARLIEST})[place].offset == 4
    assert admin.list_partition_offsets({place: OffsetSpec.LATEST})[place].offset == 10


def test_describe_producers_shows_who_has_written(
    admin: KafkaAdminClient, bootstrap: str, topic: str
) -> None:
    KafkaPython(bootstrap).produce(topic, [Message(partition=0)] * 10, idempotent=True)
    place = TopicPartition(topic, 0)
    (producer,) = admin.describe_producers([place])[place].active_producers
    assert producer.producer_id >= 0
    assert producer.producer_epoch == 0
    assert producer.last_sequence == 9


def test_a_deleted_topic_is_gone(
    admin: KafkaAdminClient, new_name: Callable[[], str], eventually: Eventually
) -> None:
    name = new_name()
    admin.create_topics([NewTopic(name, 1, 1)])
    admin.delete_topics([name])
    assert eventually(lambda: name not in admin.list_topics())
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([name])
