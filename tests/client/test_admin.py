from time import monotonic

import pytest

from ottla.client import Admin, Client, KafkaError, Producer, TopicPartition
from ottla.client.admin import EARLIEST, LATEST, MAX_TIMESTAMP, Resource
from ottla.embedded import Broker
from ottla.wire.config_resource_type import ConfigResourceType
from ottla.wire.errors import ErrorCode
from testkit.waiting import stretched


def test_the_cluster_names_its_brokers(admin: Admin, ottla_broker: Broker) -> None:
    cluster = admin.describe_cluster()
    (broker,) = cluster.brokers
    assert f"{broker.host}:{broker.port}" == ottla_broker.bootstrap_servers
    assert cluster.controller == broker.id
    assert cluster.cluster_id


def test_a_created_topic_is_listed_and_described(admin: Admin, topic: str) -> None:
    assert topic in [item.name for item in admin.list_topics()]
    (described,) = admin.describe_topics([topic])
    assert [item.partition for item in described.partitions] == [0, 1, 2]
    assert all(item.leader in item.isr for item in described.partitions)


def test_topics_are_described_in_the_order_asked(admin: Admin, topic: str) -> None:
    admin.create_topic(f"{topic}.other")
    names = [topic, f"{topic}.other"]
    assert [item.name for item in admin.describe_topics(names)] == names
    assert [item.name for item in admin.describe_topics(names[::-1])] == names[::-1]


def test_an_existing_topic_is_not_created_again(admin: Admin, topic: str) -> None:
    with pytest.raises(KafkaError) as caught:
        admin.create_topic(topic)
    assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_deleted_topic_is_gone(admin: Admin, topic: str) -> None:
    admin.delete_topic(topic)
    for ask in (admin.delete_topic, admin.partitions, lambda name: admin.describe_topics([name])):
        with pytest.raises(KafkaError, match=f"topic {topic} does not exist"):
            ask(topic)


def test_partitions_can_be_added_but_not_taken_away(admin: Admin, topic: str) -> None:
    admin.create_partitions(topic, 5)
    assert len(admin.partitions(topic)) == 5
    with pytest.raises(KafkaError) as caught:
        admin.create_partitions(topic, 4)
    assert caught.value.code == ErrorCode.INVALID_PARTITIONS


def test_only_partitions_that_exist_are_led(client: Client, topic: str) -> None:
    there, gone = TopicPartition(topic, 2), TopicPartition(f"{topic}.gone", 0)
    assert client.led([gone, there, TopicPartition(topic, 3)]) == [there]
    assert client.led([]) == []


def test_settings_are_set_and_taken_back(admin: Admin, topic: str) -> None:
    resource = Resource(ConfigResourceType.TOPIC, topic)
    admin.alter_settings(resource, {"retention.ms": "12345", "segment.ms": "60000"})
    admin.alter_settings(resource, delete=["segment.ms"])
    own = {
        item.name: item.value
        for item in admin.describe_settings(resource)
        if item.source == "DYNAMIC_TOPIC_CONFIG"
    }
    assert own == {"retention.ms": "12345"}


def test_a_setting_is_described_with_its_type_and_documentation(admin: Admin, topic: str) -> None:
    resource = Resource(ConfigResourceType.TOPIC, topic)
    (setting,) = admin.describe_settings(resource, ["retention.ms"], docs=True)
    assert (setting.type, setting.source, setting.read_only) == ("LONG", "DEFAULT_CONFIG", False)
    assert setting.documentation


def test_a_wrong_setting_is_refused_in_the_brokers_words(admin: Admin, topic: str) -> None:
    with pytest.raises(KafkaError, match=r"retention\.mss"):
        admin.alter_settings(Resource(ConfigResourceType.TOPIC, topic), {"retention.mss": "1"})


def test_a_brokers_settings_are_its_own(admin: Admin) -> None:
    broker = admin.describe_cluster().brokers[0].id
    names = [
        item.name
        for item in admin.describe_settings(Resource(ConfigResourceType.BROKER, str(broker)))
    ]
    assert "log.dirs" in names
    nobody = Resource(ConfigResourceType.BROKER, "99")
    began = monotonic()
    with pytest.raises(KafkaError, match=f"there is no broker 99; there are {broker}"):
        admin.describe_settings(nobody)
    with pytest.raises(KafkaError, match="there is no broker 99"):
        admin.alter_settings(nobody, {"log.retention.ms": "1"})
    assert monotonic() - began < stretched(10), "a mistake is not waited for"


def test_offsets_are_found_by_their_ends_and_by_time(
    client: Client, admin: Admin, topic: str
) -> None:
    with Producer(client, batch_bytes=1) as producer:
        for timestamp in (1000, 3000, 2000):
            producer.send(topic, b"", partition=0, timestamp=timestamp)
    where = TopicPartition(topic, 0)
    found = {
        spec: admin.list_offsets({where: spec})[where]
        for spec in (EARLIEST, LATEST, MAX_TIMESTAMP, 1500, 9999)
    }
    assert found[EARLIEST].offset == 0
    assert found[LATEST].offset == 3
    assert found[MAX_TIMESTAMP] == (1, 3000)
    assert found[1500] == (1, 3000)
    assert found[9999].offset == -1


def test_deleted_records_move_the_start(client: Client, admin: Admin, topic: str) -> None:
    with Producer(client) as producer:
        for _ in range(10):
            producer.send(topic, b"", partition=1)
    where = TopicPartition(topic, 1)
    assert admin.delete_records({where: 4}) == {where: 4}
    assert admin.list_offsets({where: EARLIEST})[where].offset == 4
    assert admin.delete_records({where: -1}) == {where: 10}
    with pytest.raises(KafkaError) as caught:
        admin.delete_records({where: 11})
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
