"""Commits of one turn share a batch; none is answered before it is written."""

from collections.abc import Iterator

import pytest

from ottla.broker.replicas.partition import Partition
from ottla.coordinator.shard import RequestContext
from ottla.embedded import Broker
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup
from ottla.wire.messages.produce import ProduceResponse
from testkit.batches import values
from testkit.raw import ClosedError, Connection
from tests.e2e.asking import PRODUCE, produce_request
from tests.e2e.asking_groups import committed, coordinated
from tests.e2e.asking_transactions import (
    add_offsets,
    commit_offset,
    ended,
    new_transactional_producer,
)
from tests.e2e.conftest import create_topic
from tests.server.inside import on_loop, running

COMMIT = 9
GROUP = "group"
NOBODY = -1
"""A connection that is not there."""
FULL = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(offsets_topic_num_partitions=1) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[Connection]:
    with Connection(broker.bootstrap_servers) as connection:
        create_topic(connection, "topic")
        coordinated(connection, GROUP)
        yield connection


def commit(offset: int, metadata: str = "") -> tuple[OffsetCommitRequest, int]:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata
    )
    topic = OffsetCommitRequestTopic(name="topic", partitions=[partition])
    return OffsetCommitRequest(group_id=GROUP, topics=[topic]), COMMIT


def answers(client: Connection, count: int) -> list[int]:
    return [
        client.receive(OffsetCommitResponse, COMMIT)[1].topics[0].partitions[0].error_code
        for _ in range(count)
    ]


def offsets_log(broker: Broker) -> Partition:
    return running(broker).node.partitions.find("__consumer_offsets", 0)


def in_one_turn(broker: Broker, clients: list[Connection]) -> None:
    """Let each of them commit while the broker's loop cannot look."""

    def send() -> None:
        for number, each in enumerate(clients):
            each.send_together([commit(number)])

    on_loop(broker, send)


def test_commits_sent_together_are_one_batch(broker: Broker, client: Connection) -> None:
    batches: list[int] = []
    partition = offsets_log(broker)
    append_own = Partition.append_own

    def counted(self: Partition, batch: memoryview, now: int) -> object:
        appended = append_own(self, batch, now)
        batches.append(appended.last_offset - appended.base_offset + 1)
        return appended

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Partition, "append_own", counted)
        before = partition.log.end_offset
        client.send_together([commit(offset) for offset in range(8)])
        assert answers(client, 8) == [0] * 8
    assert sum(batches) == partition.log.end_offset - before == 8
    assert len(batches) < 8
    assert committed(client, GROUP, "topic") == 7


def test_a_commit_that_cannot_be_written_is_not_answered(
    broker: Broker, client: Connection
) -> None:
    client.send_together([commit(5)])
    assert answers(client, 1) == [0]

    def full(_: Partition, __: memoryview, ___: int) -> None:
        raise FULL

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Partition, "append_own", full)
        client.send_together([commit(6), commit(7)])
        with pytest.raises(ClosedError):
            answers(client, 1)
    with Connection(broker.bootstrap_servers) as again:
        coordinated(again, GROUP)
        assert committed(again, GROUP, "topic") == 5


def test_commits_of_several_clients_share_a_turn_and_a_batch(
    broker: Broker, client: Connection
) -> None:
    partition = offsets_log(broker)
    appended: list[int] = []
    append_own = Partition.append_own

    def counted(self: Partition, batch: memoryview, now: int) -> object:
        appended.append(1)
        return append_own(self, batch, now)

    with Connection(broker.bootstrap_servers) as other, pytest.MonkeyPatch.context() as patched:
        coordinated(other, GROUP)
        patched.setattr(Partition, "append_own", counted)
        before = partition.log.end_offset
        in_one_turn(broker, [client, other])
        assert answers(client, 1) == answers(other, 1) == [0]
    assert partition.log.end_offset - before == 2
    assert len(appended) == 1


def test_none_of_the_clients_whose_commits_were_lost_is_answered(
    broker: Broker, client: Connection
) -> None:
    def full(_: Partition, __: memoryview, ___: int) -> None:
        raise FULL

    with Connection(broker.bootstrap_servers) as other, pytest.MonkeyPatch.context() as patched:
        coordinated(other, GROUP)
        patched.setattr(Partition, "append_own", full)
        in_one_turn(broker, [client, other])
        for each in (client, other):
            with pytest.raises(ClosedError):
                answers(each, 1)


def test_those_who_did_not_commit_are_answered_though_commits_were_lost(
    broker: Broker, client: Connection
) -> None:
    def full(_: Partition, __: memoryview, ___: int) -> None:
        raise FULL

    with Connection(broker.bootstrap_servers) as producer, pytest.MonkeyPatch.context() as patched:
        patched.setattr(Partition, "append_own", full)

        def send() -> None:
            request = produce_request("topic", values(b"kept"))
            producer.send_together([(request, PRODUCE)])
            client.send_together([commit(1)])
            producer.send_together([(request, PRODUCE)])

        on_loop(broker, send)
        for _ in range(2):
            _, answer = producer.receive(ProduceResponse, PRODUCE)
            assert answer.responses[0].partition_responses[0].error_code == 0
        with pytest.raises(ClosedError):
            answers(client, 1)


def test_whoever_asks_after_a_commit_sees_what_is_written(
    broker: Broker, client: Connection
) -> None:
    """An answer that is made later must not tell of a commit that was lost meanwhile."""
    runner = running(broker).node.groups.runner_of(GROUP)
    client.send_together([commit(5)])
    assert answers(client, 1) == [0]

    def full(_: Partition, __: memoryview, ___: int) -> None:
        raise FULL

    def commit_and_ask() -> int:
        request, _ = commit(6)
        runner.ask_lingering(
            lambda shard, now: shard.handle_offset_commit(request, RequestContext(COMMIT), now),
            NOBODY,
        )
        asked = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Partition, "append_own", full)
            try:
                runner.ask(
                    lambda shard, now: shard.handle_offset_fetch(asked, RequestContext(9), now)
                )
            except KafkaError as problem:
                return problem.code
        return 0

    assert on_loop(broker, commit_and_ask) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    coordinated(client, GROUP)
    assert committed(client, GROUP, "topic") == 5


def test_what_lingers_is_bounded(client: Connection) -> None:
    client.send_together([commit(offset, "m" * 4000) for offset in range(100)])
    assert answers(client, 100) == [0] * 100
    assert committed(client, GROUP, "topic") == 99


def test_a_transaction_ends_after_the_commits_before_it(broker: Broker, client: Connection) -> None:
    producer = new_transactional_producer(client, "id")
    assert add_offsets(client, producer, GROUP) == 0
    assert commit_offset(client, producer, GROUP, "topic", 50) == 0
    client.send_together([commit(offset) for offset in range(3)])
    answers(client, 3)
    ended(client, producer, commit=True)
    # The plain commits came later, so they win, also after a restart.
    assert committed(client, GROUP, "topic") == 2
    runner = running(broker).node.groups.runner_of(GROUP)
    on_loop(broker, lambda: runner.drop(reload=True))
    coordinated(client, GROUP)
    assert committed(client, GROUP, "topic") == 2


def test_what_lingers_at_a_stop_is_written(broker: Broker, client: Connection) -> None:
    node = running(broker).node
    runner = node.groups.runner_of(GROUP)

    def linger_and_end() -> int:
        before = runner.partition.log.end_offset
        request, _ = commit(9)
        runner.ask_lingering(
            lambda shard, now: shard.handle_offset_commit(request, RequestContext(COMMIT), now),
            NOBODY,
        )
        assert runner.partition.log.end_offset == before
        runner.end()
        return runner.partition.log.end_offset - before

    assert on_loop(broker, linger_and_end) == 1
