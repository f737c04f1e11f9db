"""Members of groups, by a stock client."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from confluent_kafka import Consumer

from testkit.waiting import stretched

PATIENCE_SECONDS = 30.0


@contextmanager
def member(bootstrap: str, group: str, topic: str, protocol: str = "classic") -> Iterator[Consumer]:
    """A member of a group that has its partitions, for as long as the block lasts."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "joining",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        deadline = monotonic() + stretched(PATIENCE_SECONDS)
        while not consumer.assignment():
            assert monotonic() < deadline, f"{group} did not assign anything"
            consumer.poll(0.05)
        yield consumer
    finally:
        consumer.close()
