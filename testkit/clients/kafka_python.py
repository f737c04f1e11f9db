"""kafka-python: the protocol in pure Python."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import (  # type: ignore[import-untyped]  # kafka-python ships no types
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from kafka.admin import NewTopic  # type: ignore[import-untyped]  # as above

from testkit.clients.base import PATIENCE_SECONDS, Client, ClientError, Message, Place, Received
from testkit.waiting import stretched

POLL_MS = 500


class KafkaPython(Client):
    """Its producer is idempotent by default; `idempotent` only says so once more."""

    name = "kafka-python"

    def can_send(self, message: Message) -> bool:
        return all(value is not None for _, value in message.headers)

    def _settings(self) -> dict[str, Any]:
        login = {} if self.login is None else self.login.python()
        return {"bootstrap_servers": self.bootstrap, **login}

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        admin = KafkaAdminClient(**self._settings())
        try:
            admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=dict(configs or {}))])
        finally:
            admin.close()

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
        producer = KafkaProducer(**settings)
        try:
            sent = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp_ms=message.timestamp,
                )
                for message in messages
            ]
            producer.flush(PATIENCE_SECONDS)
            written = [future.get(PATIENCE_SECONDS) for future in sent]
        finally:
            producer.close(timeout=PATIENCE_SECONDS)
        return [Place(place.partition, place.offset) for place in written]

    def consume(
        self, topic: str, partition: int, offset: int, count: int, *, largest: int | None = None
    ) -> list[Received]:
        consumer = self._consumer()
        received: list[Received] = []
        deadline = time.monotonic() + stretched(PATIENCE_SECONDS)
        try:
            place = TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek(place, offset)
            while len(received) < count:
                for records in consumer.poll(POLL_MS).values():
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
                if time.monotonic() > deadline:
                    raise ClientError(f"{len(received)} of {count} records came")
        finally:
            consumer.close()
        return received[:count]

    def offset_at_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        consumer = self._consumer()
        try:
            place = TopicPartition(topic, partition)
            found = consumer.offsets_for_times({place: timestamp})[place]
        finally:
            consumer.close()
        return None if found is None else int(found.offset)

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        consumer = self._consumer()
        try:
            place = TopicPartition(topic, partition)
            first = consumer.beginning_offsets([place])[place]
            end = consumer.end_offsets([place])[place]
        finally:
            consumer.close()
        return int(first), int(end)

    def _consumer(self) -> KafkaConsumer:
        return KafkaConsumer(**self._settings())
