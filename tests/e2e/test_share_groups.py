"""Share groups with confluent-kafka's ShareConsumer, also over a kill -9 of the broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from testkit.process import BrokerProcess
from testkit.raw import Connection
from testkit.waiting import until

RECORDS = 300
SHORT_SECONDS = 0.5


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of this module's own: one test kills it."""
    with BrokerProcess(tmp_path_factory.mktemp("share")) as process:
        yield process


def _topic(broker: BrokerProcess, name: str, count: int = RECORDS) -> None:
    """A topic with records, and a group of the same name that reads from its beginning."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 2)])[name].result()
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    group = ConfigResource(ResourceType.GROUP, name, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([group]).values():
        done.result()
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(count):
        producer.produce(name, str(number).encode())
    assert producer.flush(30) == 0


def _consumer(broker: BrokerProcess, group: str, mode: str = "implicit") -> ShareConsumer:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": mode,
        }
    )
    consumer.subscribe([group])
    return consumer


def _polled(consumer: ShareConsumer) -> list[Message]:
    return [message for message in consumer.poll(SHORT_SECONDS) if message.error() is None]


def _number(message: Message) -> int:
    value = message.value()
    assert isinstance(value, bytes)
    return int(value)


def _first_of(consumer: ShareConsumer) -> list[Message]:
    """The first records that a consumer gets."""
    found: list[Message] = []

    def got() -> bool:
        found.extend(_polled(consumer))
        return bool(found)

    until(got, "records arrive")
    return found


def test_consumers_of_a_group_share_the_records_of_a_topic(broker: BrokerProcess) -> None:
    _topic(broker, "shared")
    one, two = _consumer(broker, "shared"), _consumer(broker, "shared")
    got: list[int] = []

    def all_there() -> bool:
        for consumer in (one, two):
            got.extend(_number(message) for message in _polled(consumer))
        return len(set(got)) == RECORDS

    until(all_there, "every record is delivered")
    for consumer in (one, two):
        consumer.commit_sync(30)
        consumer.close()
    assert len(got) == RECORDS, "a record was delivered twice, though nobody gave it back"


def test_a_released_record_is_delivered_again(broker: BrokerProcess) -> None:
    _topic(broker, "released", 1)
    consumer = _consumer(broker, "released", "explicit")
    (first,) = _first_of(consumer)
    consumer.acknowledge(first, AcknowledgeType.RELEASE)
    (again,) = _first_of(consumer)
    assert again.offset() == first.offset()
    consumer.acknowledge(again, AcknowledgeType.ACCEPT)
    assert set(consumer.commit_sync(30).values()) == {None}
    consumer.close()


def _reset(broker: BrokerProcess, name: str) -> int:
    """Let the group begin both partitions again; the error code of the reply."""
    request = AlterShareGroupOffsetsRequest(
        group_id=name,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=0)
                    for index in range(2)
                ],
            )
        ],
    )
    with Connection(broker.bootstrap) as connection:
        return connection.ask(request, AlterShareGroupOffsetsResponse, 0).error_code


def test_a_group_whose_offsets_were_reset_reads_all_records_again(broker: BrokerProcess) -> None:
    _topic(broker, "reset")
    for _ in range(2):
        consumer = _consumer(broker, "reset")
        got: set[int] = set()

        def all_there(consumer: ShareConsumer = consumer, got: set[int] = got) -> bool:
            got.update(_number(message) for message in _polled(consumer))
            return len(got) == RECORDS

        until(all_there, "every record is delivered")
        consumer.commit_sync(30)
        consumer.close()
        until(lambda: _reset(broker, "reset") == 0, "the group is empty and its offsets are reset")


def test_what_was_acknowledged_is_not_delivered_again_after_the_broker_was_killed(
    broker: BrokerProcess,
) -> None:
    _topic(broker, "killed")
    consumer = _consumer(broker, "killed", "explicit")
    accepted: set[int] = set()
    first = _first_of(consumer)
    for number, message in enumerate(first):
        kind = AcknowledgeType.ACCEPT if number % 2 == 0 else AcknowledgeType.RELEASE
        consumer.acknowledge(message, kind)
        if kind == AcknowledgeType.ACCEPT:
            accepted.add(_number(message))
    assert set(consumer.commit_sync(30).values()) == {None}
    consumer.close()
    broker.kill()
    broker.start()
    other = _consumer(broker, "killed")
    got: set[int] = set()

    def rest_is_there() -> bool:
        got.update(_number(message) for message in _polled(other))
        return len(got | accepted) == RECORDS

    until(rest_is_there, "the other records are delivered")
    other.commit_sync(30)
    other.close()
    assert not got & accepted
