"""aiokafka: asyncio's client. Each call runs a loop of its own, as a script would."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import (  # type: ignore[import-untyped]  # aiokafka ships no type marker
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)
from aiokafka.admin import (  # type: ignore[import-untyped]  # as above
    AIOKafkaAdminClient,
    NewTopic,
)

from testkit.clients.base import PATIENCE_SECONDS, Client, Message, Place, Received
from testkit.waiting import stretched

POLL_MS = 500


class AioKafka(Client):
    """The producer sends batch after batch, each when the one before it was acknowledged."""

    name = "aiokafka"

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap_servers": self.bootstrap}
        if self.login is not None:
            settings |= self.login.python()
            settings["ssl_context"] = ssl.create_default_context(cafile=settings.pop("ssl_cafile"))
        return settings

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        asyncio.run(self._create_topic(topic, partitions, dict(configs or {})))

    async def _create_topic(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        admin = AIOKafkaAdminClient(**self._settings())
        await admin.start()
        try:
            answer = await admin.create_topics(
                [NewTopic(topic, partitions, 1, topic_configs=configs)]
            )
            ((_, code, message),) = answer.topic_errors
            assert code == 0, message
        finally:
            await admin.close()

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        idempotent: bool = False,
        largest: int | None = None,
    ) -> list[Place]:
        settings = self._settings()
        if codec != "none":
            settings["compression_type"] = codec
        if idempotent:
            settings["enable_idempotence"] = True
        if largest is not None:
            settings["max_request_size"] = largest
        return asyncio.run(self._produce(topic, messages, settings))

    async def _produce(
        self, topic: str, messages: Sequence[Message], settings: dict[str, Any]
    ) -> list[Place]:
        async with asyncio.timeout(stretched(PATIENCE_SECONDS)):
            producer = AIOKafkaProducer(**settings)
            await producer.start()
            try:
                sent = [
                    await producer.send(
                        topic,
                        value=message.value,
                        key=message.key,
                        partition=message.partition,
                        timestamp_ms=message.timestamp,
                        headers=list(message.headers),
                    )
                    for message in messages
                ]
                written = await asyncio.gather(*sent)
            finally:
                await producer.stop()
        return [Place(place.partition, place.offset) for place in written]

    def consume(
        self, topic: str, partition: int, offset: int, count: int, *, largest: int | None = None
    ) -> list[Received]:
        return asyncio.run(self._consume(topic, partition, offset, count))

    async def _consume(self, topic: str, partition: int, offset: int, count: int) -> list[Received]:
        received: list[Received] = []
        async with asyncio.timeout(stretched(PATIENCE_SECONDS)):
            consumer = AIOKafkaConsumer(**self._settings())
            await consumer.start()
            try:
                place = TopicPartition(topic, partition)
                consumer.assign([place])
                consumer.seek(place, offset)
                while len(received) < count:
                    for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                        received += [
                            Received(
                                record.partition,
                                record.offset,
                                record.timestamp,
                                record.key,
                                record.value,
                                tuple(record.headers),
                            )
                            for record in records
                        ]
            finally:
                await consumer.stop()
        return received[:count]

    def offset_at_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        return asyncio.run(self._offset_at_time(topic, partition, timestamp))

    async def _offset_at_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        consumer = AIOKafkaConsumer(**self._settings())
        await consumer.start()
        try:
            place = TopicPartition(topic, partition)
            found = (await consumer.offsets_for_times({place: timestamp}))[place]
        finally:
            await consumer.stop()
        return None if found is None else int(found.offset)

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        return asyncio.run(self._offsets(topic, partition))

    async def _offsets(self, topic: str, partition: int) -> tuple[int, int]:
        consumer = AIOKafkaConsumer(**self._settings())
        await consumer.start()
        try:
            place = TopicPartition(topic, partition)
            first = (await consumer.beginning_offsets([place]))[place]
            end = (await consumer.end_offsets([place]))[place]
        finally:
            await consumer.stop()
        return int(first), int(end)
