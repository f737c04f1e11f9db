"""Topics of the bench: created and deleted through a stock client, by what Kafka allows."""

from concurrent.futures import Future

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from bench.errors import BenchError
from bench.server import Server

# Kafka's controller refuses a request that would write more than 10,000 metadata records.
PARTITIONS_A_REQUEST = 5_000
ANSWER_SECONDS = 180


def create(server: Server, topic: str, partitions: int = 1) -> None:
    """Creates a topic, in steps where it has very many partitions."""
    admin = _admin(server)
    first = min(partitions, PARTITIONS_A_REQUEST)
    _wait(admin.create_topics([NewTopic(topic, first, 1)], **_patience()), topic, "create")
    for total in range(first + PARTITIONS_A_REQUEST, partitions + 1, PARTITIONS_A_REQUEST):
        _wait(admin.create_partitions([NewPartitions(topic, total)], **_patience()), topic, "grow")


def delete(server: Server, topic: str) -> None:
    """Deletes a topic; the server removes its files when it sees fit."""
    admin = _admin(server)  # kept: the answer goes with the client that asked
    _wait(admin.delete_topics([topic], **_patience()), topic, "delete")


def _admin(server: Server) -> AdminClient:
    return AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})


def _patience() -> dict[str, float]:
    return {"operation_timeout": ANSWER_SECONDS, "request_timeout": ANSWER_SECONDS}


def _wait(answers: dict[str, "Future[None]"], topic: str, what: str) -> None:
    try:
        answers[topic].result(ANSWER_SECONDS)
    except (KafkaException, TimeoutError) as error:
        raise BenchError(f"could not {what} topic {topic}: {error}") from None
