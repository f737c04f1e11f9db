"""Topics of the bench: created and deleted through a stock client, by what Kafka allows."""

import time
from concurrent.futures import Future

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import PartitionMetadata
from confluent_kafka.cimpl import NewPartitions, NewTopic

from testkit.errors import HarnessError
from testkit.server import Server

# Kafka's controller refuses a request that would write more than 10,000 metadata records.
PARTITIONS_A_REQUEST = 5_000
ANSWER_SECONDS = 180
LOOK_AGAIN_SECONDS = 0.05


def create(
    server: Server, topic: str, partitions: int = 1, replicas: int = 1, **configs: str
) -> None:
    """Creates a topic, in steps where it has very many partitions.

    The names of its settings have underscores where Kafka has dots.
    """
    admin = _admin(server)
    first = min(partitions, PARTITIONS_A_REQUEST)
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    new = NewTopic(topic, first, replicas, config=settings)
    _wait(admin.create_topics([new], **_patience()), topic, "create")
    for total in range(first + PARTITIONS_A_REQUEST, partitions + 1, PARTITIONS_A_REQUEST):
        _wait(admin.create_partitions([NewPartitions(topic, total)], **_patience()), topic, "grow")


def delete(server: Server, topic: str) -> None:
    """Deletes a topic; the server removes its files when it sees fit."""
    admin = _admin(server)  # kept: the answer goes with the client that asked
    _wait(admin.delete_topics([topic], **_patience()), topic, "delete")


def leaders(server: Server, topic: str) -> dict[int, int]:
    """The leader of each partition that has one, and that the server has no error for."""
    return {
        index: partition.leader
        for index, partition in _partitions(server, topic).items()
        if partition.leader >= 0 and partition.error is None
    }


def wait_until_in_sync(server: Server, topic: str, partitions: int, replicas: int) -> None:
    """Waits until each partition is led and has so many replicas in sync."""
    give_up = time.monotonic() + ANSWER_SECONDS
    while True:
        found = _partitions(server, topic)
        in_sync = [each for each in found.values() if len(each.isrs) == replicas]
        if len(in_sync) == partitions and len(leaders(server, topic)) == partitions:
            return
        if time.monotonic() > give_up:
            raise HarnessError(f"{partitions - len(in_sync)} partitions of {topic} are not in sync")
        time.sleep(LOOK_AGAIN_SECONDS)


def _partitions(server: Server, topic: str) -> dict[int, PartitionMetadata]:
    try:
        return _admin(server).list_topics(topic, ANSWER_SECONDS).topics[topic].partitions
    except KafkaException as error:
        raise HarnessError(f"{server.name} does not tell of topic {topic}: {error}") from None


def _admin(server: Server) -> AdminClient:
    return AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})


def _patience() -> dict[str, float]:
    return {"operation_timeout": ANSWER_SECONDS, "request_timeout": ANSWER_SECONDS}


def _wait(answers: dict[str, "Future[None]"], topic: str, what: str) -> None:
    try:
        answers[topic].result(ANSWER_SECONDS)
    except (KafkaException, TimeoutError) as error:
        raise HarnessError(f"could not {what} topic {topic}: {error}") from None
