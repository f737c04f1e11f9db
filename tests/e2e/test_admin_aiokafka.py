"""The admin requests of aiokafka."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from aiokafka import TopicPartition  # type: ignore[import-untyped]  # no type marker
from aiokafka.admin import (  # type: ignore[import-untyped]  # as above
    AIOKafkaAdminClient,
    NewPartitions,
    NewTopic,
    RecordsToDelete,
)
from aiokafka.admin.config_resource import (  # type: ignore[import-untyped]  # as above
    ConfigResource,
    ConfigResourceType,
)

from ottla.wire.errors import ErrorCode
from testkit.clients.aio import AioKafka
from testkit.clients.base import Message
from tests.e2e.conftest import Eventually

T = TypeVar("T")


def with_admin(bootstrap: str, work: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
    async def run() -> T:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            return await work(admin)
        finally:
            await admin.close()

    return asyncio.run(run())


def test_topics_are_created_listed_described_and_deleted(
    bootstrap: str, new_name: Callable[[], str], eventually: Eventually
) -> None:
    name = new_name()

    def topics() -> list[str]:
        return list(with_admin(bootstrap, lambda admin: admin.list_topics()))

    def partitions() -> list[int]:
        (found,) = with_admin(bootstrap, lambda admin: admin.describe_topics([name]))
        return [partition["partition"] for partition in found["partitions"]]

    async def create(admin: AIOKafkaAdminClient) -> None:
        await admin.create_topics([NewTopic(name, 2, 1)])
        ((_, again, _),) = (await admin.create_topics([NewTopic(name, 2, 1)])).topic_errors
        assert again == ErrorCode.TOPIC_ALREADY_EXISTS

    with_admin(bootstrap, create)
    assert eventually(lambda: name in topics())
    assert partitions() == [0, 1]
    with_admin(bootstrap, lambda admin: admin.create_partitions({name: NewPartitions(5)}))
    assert eventually(lambda: partitions() == [0, 1, 2, 3, 4])
    with_admin(bootstrap, lambda admin: admin.delete_topics([name]))
    assert eventually(lambda: name not in topics())


def test_the_cluster_is_described(bootstrap: str) -> None:
    async def work(admin: AIOKafkaAdminClient) -> None:
        found = await admin.describe_cluster()
        (node,) = found["brokers"]
        assert f"{node['host']}:{node['port']}" == bootstrap
        assert found["controller_id"] == node["node_id"]

    with_admin(bootstrap, work)


def test_configs_are_reported_and_changed(bootstrap: str, topic: str) -> None:
    async def work(admin: AIOKafkaAdminClient) -> None:
        change = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "55555"})
        await admin.alter_configs([change])
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        ((code, _, _, name, entries),) = answer.resources
        assert (code, name) == (0, topic)
        values = {entry[0]: entry[1] for entry in entries}
        assert values["retention.ms"] == "55555"
        assert values["max.message.bytes"] == "1048588"

    with_admin(bootstrap, work)


def test_records_are_deleted(bootstrap: str, topic: str) -> None:
    AioKafka(bootstrap).produce(topic, [Message(partition=0)] * 10)
    place = TopicPartition(topic, 0)

    async def work(admin: AIOKafkaAdminClient) -> None:
        assert await admin.delete_records({place: RecordsToDelete(7)}) == {place: 7}

    with_admin(bootstrap, work)
    assert AioKafka(bootstrap).offsets(topic, 0) == (7, 10)
