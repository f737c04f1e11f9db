"""The admin requests of confluent-kafka."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported unsaid
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from testkit.batches import now_ms
from testkit.clients.base import PATIENCE_SECONDS, Message
from testkit.clients.confluent import Confluent
from tests.e2e.conftest import Eventually, Topics

EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # left untyped there
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # as above
MAX_TIMESTAMP = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]  # as above


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def topic_configs(admin: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(
        PATIENCE_SECONDS
    )
    return entries


def change(
    admin: AdminClient, topic: str, name: str, value: str | None, operation: AlterConfigOpType
) -> None:
    entry = ConfigEntry(name, value, incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_SECONDS)


def code_of(failure: pytest.ExceptionInfo[KafkaException]) -> int:
    code: int = failure.value.args[0].code()
    return code


def test_create_with_partitions_and_configs(
    admin: AdminClient, new_name: Callable[[], str], eventually: Eventually
) -> None:
    name = new_name()
    wanted = NewTopic(name, 3, 1, config={"retention.ms": "123456"})
    admin.create_topics([wanted])[name].result(PATIENCE_SECONDS)
    assert eventually(
        lambda: len(admin.list_topics(name, PATIENCE_SECONDS).topics[name].partitions) == 3
    )
    assert topic_configs(admin, name)["retention.ms"].value == "123456"


def test_validate_only_creates_nothing(admin: AdminClient, new_name: Callable[[], str]) -> None:
    name = new_name()
    answer = admin.create_topics([NewTopic(name, 3, 1)], validate_only=True)
    answer[name].result(PATIENCE_SECONDS)
    assert name not in admin.list_topics(timeout=PATIENCE_SECONDS).topics


def test_a_name_in_use_is_refused(admin: AdminClient, topic: str) -> None:
    with pytest.raises(KafkaException) as failure:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_SECONDS)
    assert code_of(failure) == KafkaError.TOPIC_ALREADY_EXISTS


def test_describe_topics_names_leader_and_replicas(admin: AdminClient, new_topic: Topics) -> None:
    topic = new_topic(partitions=2)
    found = admin.describe_topics(TopicCollection([topic]))[topic].result(PATIENCE_SECONDS)
    assert found.name == topic
    assert not found.is_internal
    assert [partition.id for partition in found.partitions] == [0, 1]
    for partition in found.partitions:
        assert [node.id for node in partition.replicas] == [partition.leader.id]
        assert [node.id for node in partition.isr] == [partition.leader.id]


def test_describe_cluster_names_this_broker_as_controller(
    admin: AdminClient, bootstrap: str
) -> None:
    found = admin.describe_cluster().result(PATIENCE_SECONDS)
    assert found.cluster_id
    assert [f"{node.host}:{node.port}" for node in found.nodes] == [bootstrap]
    assert found.controller.id == found.nodes[0].id


def test_partitions_can_be_added_but_not_taken(
    admin: AdminClient, topic: str, eventually: Eventually
) -> None:
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(PATIENCE_SECONDS)
    assert eventually(
        lambda: len(admin.list_topics(topic, PATIENCE_SECONDS).topics[topic].partitions) == 4
    )
    with pytest.raises(KafkaException) as failure:
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(PATIENCE_SECONDS)
    assert code_of(failure) == KafkaError.INVALID_PARTITIONS


def test_configs_change_one_by_one(admin: AdminClient, topic: str) -> None:
    before = topic_configs(admin, topic)["retention.ms"]
    assert (before.value, before.is_default) == ("604800000", True)
    change(admin, topic, "retention.ms", "1000000", AlterConfigOpType.SET)
    change(admin, topic, "segment.bytes", "2000000", AlterConfigOpType.SET)
    after = topic_configs(admin, topic)
    assert (after["retention.ms"].value, after["retention.ms"].is_default) == ("1000000", False)
    assert after["segment.bytes"].value == "2000000"
    change(admin, topic, "retention.ms", None, AlterConfigOpType.DELETE)
    after = topic_configs(admin, topic)
    assert (after["retention.ms"].value, after["retention.ms"].is_default) == ("604800000", True)
    assert after["segment.bytes"].value == "2000000"


def test_lists_in_configs_grow_and_shrink(admin: AdminClient, topic: str) -> None:
    change(admin, topic, "cleanup.policy", "compact", AlterConfigOpType.APPEND)
    assert topic_configs(admin, topic)["cleanup.policy"].value == "delete,compact"
    change(admin, topic, "cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    assert topic_configs(admin, topic)["cleanup.policy"].value == "compact"


def test_alter_configs_replaces_all_of_them(admin: AdminClient, new_topic: Topics) -> None:
    topic = new_topic(retention_ms="1000000")
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "2000000"})
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        admin.alter_configs([resource])[resource].result(PATIENCE_SECONDS)
    after = topic_configs(admin, topic)
    assert after["segment.bytes"].value == "2000000"
    assert after["retention.ms"].is_default


@pytest.mark.parametrize(
    ("name", "value"),
    [("retention.ms", "soon"), ("no.such.config", "1"), ("cleanup.policy", "burn")],
)
def test_a_wrong_config_is_refused(admin: AdminClient, topic: str, name: str, value: str) -> None:
    with pytest.raises(KafkaException) as failure:
        change(admin, topic, name, value, AlterConfigOpType.SET)
    assert code_of(failure) == KafkaError.INVALID_CONFIG


def test_the_brokers_own_configs_are_reported(admin: AdminClient) -> None:
    node = admin.describe_cluster().result(PATIENCE_SECONDS).controller.id
    resource = ConfigResource(ResourceType.BROKER, str(node))
    entries = admin.describe_configs([resource])[resource].result(PATIENCE_SECONDS)
    assert entries["num.partitions"].value == "1"
    assert entries["log.retention.hours"].value == "168"
    assert entries["log.dirs"].is_read_only


def test_list_offsets_by_place_and_time(admin: AdminClient, bootstrap: str, topic: str) -> None:
    start = now_ms() - 100_000
    times = [start, start + 30, start + 10, start + 20]
    Confluent(bootstrap).produce(topic, [Message(timestamp=time, partition=0) for time in times])

    def found(spec: OffsetSpec) -> tuple[int, int]:
        place = TopicPartition(topic, 0)
        result = admin.list_offsets({place: spec})[place].result(PATIENCE_SECONDS)
        return result.offset, result.timestamp

    assert found(EARLIEST) == (0, -1)
    assert found(LATEST) == (4, -1)
    assert found(MAX_TIMESTAMP) == (1, start + 30)
    assert found(OffsetSpec.for_timestamp(start + 5)) == (1, start + 30)
    assert found(OffsetSpec.for_timestamp(start + 31)) == (-1, -1)


def test_deleted_records_are_gone_and_the_rest_stays(
    admin: AdminClient, bootstrap: str, topic: str
) -> None:
    client = Confluent(bootstrap)
    client.produce(topic, [Message(str(n).encode(), partition=0) for n in range(10)])
    place = TopicPartition(topic, 0, 6)
    assert admin.delete_records([place])[place].result(PATIENCE_SECONDS).low_watermark == 6
    assert client.offsets(topic, 0) == (6, 10)
    assert [record.value for record in client.consume(topic, 0, 6, 4)] == [b"6", b"7", b"8", b"9"]
    beyond = TopicPartition(topic, 0, 11)
    with pytest.raises(KafkaException) as failure:
        admin.delete_records([beyond])[beyond].result(PATIENCE_SECONDS)
    assert code_of(failure) == KafkaError.OFFSET_OUT_OF_RANGE


def test_records_of_a_topic_that_keeps_everything_can_be_deleted(
    admin: AdminClient, bootstrap: str, new_topic: Topics
) -> None:
    topic = new_topic(1, **{"cleanup.policy": ""})
    Confluent(bootstrap).produce(topic, [Message(b"x", partition=0)] * 3)
    place = TopicPartition(topic, 0, 2)
    assert admin.delete_records([place])[place].result(PATIENCE_SECONDS).low_watermark == 2


def test_a_deleted_topic_is_gone_and_its_name_is_free(
    admin: AdminClient, bootstrap: str, new_name: Callable[[], str], eventually: Eventually
) -> None:
    client, name = Confluent(bootstrap), new_name()
    client.create_topic(name)
    client.produce(name, [Message(partition=0)] * 3)
    admin.delete_topics([name])[name].result(PATIENCE_SECONDS)
    assert eventually(lambda: name not in admin.list_topics(timeout=PATIENCE_SECONDS).topics)
    client.create_topic(name)
    client.produce(name, [Message(b"new", partition=0)])
    assert client.offsets(name, 0) == (0, 1)


def test_deleting_what_is_not_there_is_refused(
    admin: AdminClient, new_name: Callable[[], str]
) -> None:
    name = new_name()
    with pytest.raises(KafkaException) as failure:
        admin.delete_topics([name])[name].result(PATIENCE_SECONDS)
    assert code_of(failure) == KafkaError.UNKNOWN_TOPIC_OR_PART
