"""A small synchronous client over `ottla.wire`, for tools and for tasks of other systems.

A client keeps no global state, starts no thread and belongs to the thread that made it. Its
settings are plain values that can be pickled; each process makes its own client from them.
People who write applications are better served by confluent-kafka, aiokafka or kafka-python.

    with Client("127.0.0.1:9092") as client:
        with Producer(client) as producer:
            producer.send("events", b"hello")
        with Reader(client, {TopicPartition("events", 0): 0}) as reader:
            for batch in reader.poll():
                print(batch.records)

Every failure is a `KafkaError` whose text stands alone.
"""

from ottla.client.admin import Admin
from ottla.client.cluster import Client, TopicPartition
from ottla.client.consumer import Reader
from ottla.client.errors import ConnectionFailed, NoBroker, OffsetOutOfRange
from ottla.client.producer import Producer
from ottla.client.settings import ClientSettings
from ottla.wire.errors import KafkaError

__all__ = [
    "Admin",
    "Client",
    "ClientSettings",
    "ConnectionFailed",
    "KafkaError",
    "NoBroker",
    "OffsetOutOfRange",
    "Producer",
    "Reader",
    "TopicPartition",
]
