"""confluent-kafka: librdkafka for Python."""

from collections.abc import Mapping, Sequence

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka import Message as Delivered
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from testkit.clients.base import PATIENCE_SECONDS, Client, ClientError, Message, Place, Received

POLL_SECONDS = 0.5


class Confluent(Client):
    """librdkafka wants a group id even from a consumer that assigns; nothing is committed."""

    name = "confluent-kafka"

    def _settings(self) -> dict[str, str | int | float | bool]:
        login = {} if self.login is None else self.login.librdkafka()
        return {"bootstrap.servers": self.bootstrap, **login}

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        admin = AdminClient(self._settings())
        answers = admin.create_topics([NewTopic(topic, partitions, config=dict(configs or {}))])
        answers[topic].result(PATIENCE_SECONDS)

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
            settings["compression.type"] = codec
        if idempotent:
            settings["enable.idempotence"] = True
        if largest is not None:
            settings["message.max.bytes"] = largest
        producer = Producer(settings)
        places: dict[int, Place] = {}
        problems: list[str] = []
        for number, message in enumerate(messages):
            self._send(producer, topic, message, number, places, problems)
        left = producer.flush(PATIENCE_SECONDS)
        if problems or left:
            raise ClientError(f"{left} messages not delivered, errors: {problems[:3]}")
        return [places[number] for number in range(len(messages))]

    @staticmethod
    def _send(
        producer: Producer,
        topic: str,
        message: Message,
        number: int,
        places: dict[int, Place],
        problems: list[str],
    ) -> None:
        def delivered(problem: KafkaError | None, delivery: Delivered) -> None:
            if problem is not None:
                problems.append(str(problem))
                return
            partition, offset = delivery.partition(), delivery.offset()
            assert partition is not None
            assert offset is not None
            places[number] = Place(partition, offset)

        # librdkafka's own words for "you choose" are -1 and 0.
        partition = -1 if message.partition is None else message.partition
        timestamp = message.timestamp or 0
        headers: list[tuple[str, str | bytes | None]] = list(message.headers)
        while True:
            try:
                producer.produce(
                    topic,
                    message.value,
                    message.key,
                    partition,
                    delivered,
                    timestamp=timestamp,
                    headers=headers,
                )
                break
            except BufferError:
                producer.poll(POLL_SECONDS)

    def consume(
        self, topic: str, partition: int, offset: int, count: int, *, largest: int | None = None
    ) -> list[Received]:
        consumer = self._consumer()
        received: list[Received] = []
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            polls = 0
            while len(received) < count:
                for message in consumer.consume(min(count, 10_000), POLL_SECONDS):
                    problem = message.error()
                    if problem is not None:
                        raise ClientError(str(problem))
                    received.append(_received(message))
                polls += 1
                if polls * POLL_SECONDS > PATIENCE_SECONDS:
                    raise ClientError(f"{len(received)} of {count} records came")
        finally:
            consumer.close()
        return received[:count]

    def offset_at_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        consumer = self._consumer()
        try:
            wanted = [TopicPartition(topic, partition, timestamp)]
            (found,) = consumer.offsets_for_times(wanted, timeout=PATIENCE_SECONDS)
        finally:
            consumer.close()
        if found.error is not None:
            raise KafkaException(found.error)
        return found.offset if found.offset >= 0 else None

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        consumer = self._consumer()
        try:
            limits = consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=PATIENCE_SECONDS
            )
        finally:
            consumer.close()
        assert limits is not None
        return limits

    def _consumer(self) -> Consumer:
        return Consumer({**self._settings(), "group.id": "unused", "enable.auto.commit": False})


def _received(message: Delivered) -> Received:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    kind, timestamp = message.timestamp()
    assert kind != TIMESTAMP_NOT_AVAILABLE
    headers = tuple(
        (name, value if value is None or isinstance(value, bytes) else value.encode())
        for name, value in _header_pairs(message)
    )
    key, value = message.key(), message.value()
    assert not isinstance(key, str)
    assert not isinstance(value, str)
    return Received(partition, offset, timestamp, key, value, headers)


def _header_pairs(message: Delivered) -> list[tuple[str, str | bytes | None]]:
    headers = message.headers()
    if headers is None:
        return []
    return list(headers.items()) if isinstance(headers, dict) else list(headers)
