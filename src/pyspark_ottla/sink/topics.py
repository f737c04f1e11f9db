"""How many partitions a topic has; a broker that makes topics on request may do so first."""

from time import monotonic

from ottla.client import Client
from ottla.client.cluster import UnknownTopic

NEW_TOPIC_SECONDS = 5.0
"""Apache Kafka answers before a new topic is known everywhere."""


def partition_count(client: Client, name: str, *, create: bool = True) -> int:
    """The number of partitions; raises UnknownTopic where there is no such topic."""
    try:
        return len(client.topic(name).leaders)
    except UnknownTopic:
        if create:
            client.metadata([name], create=True)
    deadline = monotonic() + NEW_TOPIC_SECONDS
    while True:
        try:
            return len(client.topic(name).leaders)
        except UnknownTopic:
            if monotonic() > deadline:
                raise
