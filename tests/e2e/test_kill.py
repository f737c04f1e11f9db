"""kill -9: under load (in short what `python -m compat --only kill` does), and amid admin work."""

from random import Random
from uuid import UUID

from compat import kill
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from testkit.batches import values
from testkit.raw import Connection
from tests.e2e.asking import end_offset, produce
from tests.e2e.conftest import OwnBroker, create_topic, describe

ROUNDS = 3
PARTITIONS = 3


def test_nothing_acknowledged_is_lost_or_doubled(own_broker: OwnBroker) -> None:
    kill.run(own_broker(), ROUNDS, seed=1)


def test_small_segments_are_recovered_too(own_broker: OwnBroker) -> None:
    kill.run(own_broker({"log.segment.bytes": "1048576"}), 1, seed=2)


def test_topics_are_whole_or_not_there_at_all(own_broker: OwnBroker) -> None:
    """What was answered holds; what was under way is done or not begun."""
    broker = own_broker()
    chance = Random(3)
    topics: dict[str, UUID] = {}
    for number in range(ROUNDS):
        with Connection(broker.bootstrap) as connection:
            for name in [f"made-{number}-{n}" for n in range(8)]:
                create_topic(connection, name, PARTITIONS)
                topics[name] = describe(connection, name).topic_id
                assert produce(connection, name, values(b"x"), 1).error_code == 0
            gone = chance.sample(sorted(topics), 3)
            request = DeleteTopicsRequest(topic_names=gone, timeout_ms=30_000)
            deleted = connection.ask(request, DeleteTopicsResponse, 5).responses
            assert {result.error_code for result in deleted} == {0}
            for name in gone:
                del topics[name]
            dying, coming = chance.choice(sorted(topics)), f"coming-{number}"
            connection.send(DeleteTopicsRequest(topic_names=[dying], timeout_ms=30_000), 5)
            wanted = CreatableTopic(name=coming, num_partitions=PARTITIONS, replication_factor=1)
            connection.send(CreateTopicsRequest(topics=[wanted]), 7)
            broker.kill()
        broker.start()
        with Connection(broker.bootstrap) as connection:
            for name in gone:
                assert describe(connection, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if describe(connection, dying).error_code:
                del topics[dying]
            for name, topic_id in topics.items():
                found = describe(connection, name)
                assert (found.topic_id, len(found.partitions)) == (topic_id, PARTITIONS)
                assert end_offset(connection, name, 1) == 1
            under_way = describe(connection, coming)
            if not under_way.error_code:
                assert len(under_way.partitions) == PARTITIONS
                assert produce(connection, coming, values(b"x"), 2).error_code == 0
