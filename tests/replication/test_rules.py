"""The rules of replication on three real brokers, some of which are paused (SIGSTOP).

docs/replication.md has the rules, and which tests hold each of them. Nobody is declared dead here
unless a test says so: a paused follower keeps its place for `replica.lag.time.max.ms`.
"""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.produce import ProduceResponse
from testkit.batches import Batch
from testkit.cluster import ClusterProcesses
from testkit.raw import Connection
from testkit.waiting import until
from tests.e2e.asking import (
    LATEST,
    PRODUCE,
    From,
    fetch,
    fetch_request,
    list_offset,
    new_producer,
    partitions_of,
    produce,
    produce_request,
)

from .writing import paused, produce_to


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("cluster")) as brokers:
        yield brokers


def roles(cluster: ClusterProcesses, topic: str) -> tuple[int, list[int]]:
    """The leader of partition 0, and its followers."""
    found = cluster.partition(topic)
    return found.leader_id, [one for one in found.replica_nodes if one != found.leader_id]


def test_rule_1_what_one_in_sync_replica_lacks_is_not_shown(cluster: ClusterProcesses) -> None:
    topic = cluster.create("lacking")
    leader, (slow, _) = roles(cluster, topic)
    broker = cluster.brokers[leader]
    assert produce_to(broker, topic)[0].error_code == 0
    with paused(cluster, slow), Connection(broker.bootstrap) as connection:
        assert produce_to(broker, topic, acks=1)[0].error_code == 0
        seen = fetch(connection, From(topic, 1), max_wait_ms=300, min_bytes=1)
        assert (seen.error_code, seen.records or b"", seen.high_watermark) == (0, b"", 1)
    with Connection(broker.bootstrap) as connection:
        until(
            lambda: fetch(connection, From(topic, 1)).high_watermark == 2,
            "it is shown once all have it",
        )


def test_rule_2_positions_of_another_term_or_broker_epoch_do_not_count(
    cluster: ClusterProcesses,
) -> None:
    topic = cluster.create("impostors")
    leader, followers = roles(cluster, topic)
    broker, epoch = cluster.brokers[leader], cluster.partition(topic).leader_epoch
    with paused(cluster, *followers), Connection(broker.bootstrap) as connection:
        assert produce_to(broker, topic, acks=1)[0].error_code == 0
        for follower in followers:
            for leader_epoch, wanted in (
                (epoch - 1, ErrorCode.FENCED_LEADER_EPOCH),
                (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
                # The right term, in a life that is over.
                (epoch, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ):
                request = fetch_request(
                    From(cluster.metadata(topic, of=broker).topics[0].topic_id, 1, 0, leader_epoch)
                )
                request.replica_state.replica_id = follower
                request.replica_state.replica_epoch = 0
                answer = connection.ask(request, FetchResponse, 17)
                assert [each.error_code for each in partitions_of(answer)] == [wanted]
        assert list_offset(connection, topic, LATEST).offset == 0, "nothing is committed"
    cluster.until_in_sync(topic)


def test_rule_5_a_broker_that_restarts_unseen_leaves_the_isr(
    cluster: ClusterProcesses,
) -> None:
    topic = cluster.create("bounced", partitions=3)
    told = cluster.metadata(topic)
    before = next(
        each for each in told.topics[0].partitions if each.leader_id != told.controller_id
    )
    number, index = before.leader_id, before.partition_index
    broker = cluster.brokers[number]
    assert produce_to(broker, topic, partition=index)[0].error_code == 0
    with paused(cluster, told.controller_id), ThreadPoolExecutor(1) as starter:
        broker.forget_log()
        broker.kill()
        started = starter.submit(broker.start)  # it is ready when it has a leader, so not yet
        until(lambda: "broker started" in broker.log_text(), "it is registered again")
        os.kill(cluster.brokers[told.controller_id].pid, signal.SIGCONT)
        started.result()
    until(
        lambda: (
            (found := cluster.partition(topic, index)).leader_epoch > before.leader_epoch
            and found.leader_id not in (-1, number)
        ),
        "one that did not restart leads, in a new term",
    )
    cluster.until_in_sync(topic)


def test_rule_6_an_append_that_waits_too_long_times_out(cluster: ClusterProcesses) -> None:
    topic = cluster.create("waiting")
    leader, followers = roles(cluster, topic)
    with paused(cluster, followers[0]):
        result, _ = produce_to(cluster.brokers[leader], topic, timeout_ms=300)
        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_rule_6_a_duplicate_is_acknowledged_when_the_first_is_committed(
    cluster: ClusterProcesses,
) -> None:
    topic = cluster.create("doubled")
    leader, followers = roles(cluster, topic)
    broker = cluster.brokers[leader]
    with Connection(broker.bootstrap) as connection, Connection(broker.bootstrap) as another:
        producer, epoch = new_producer(connection)
        batch = Batch(producer_id=producer, producer_epoch=epoch, base_sequence=0).build()
        with paused(cluster, *followers):
            assert produce(connection, topic, batch, acks=1).error_code == 0
            another.send(produce_request(topic, batch), PRODUCE)
            assert not another.has_reply(0.5), "it is there, and not committed"
        _, answer = another.receive(ProduceResponse, PRODUCE)
        (result,) = answer.responses[0].partition_responses
        assert (result.error_code, result.base_offset) == (0, 0)
        assert list_offset(connection, topic, LATEST).offset == 1


def test_rule_6_a_new_leader_says_where_the_log_ends_when_it_knows(
    cluster: ClusterProcesses,
) -> None:
    topic = cluster.create("unsure", partitions=3)
    told = cluster.metadata(topic)
    # The controller is not paused: it has to elect.
    chosen = next(
        each for each in told.topics[0].partitions if each.replica_nodes[2] != told.controller_id
    )
    index, (old, heir, slow) = chosen.partition_index, chosen.replica_nodes
    assert chosen.leader_id == old
    assert produce_to(cluster.brokers[old], topic, partition=index)[0].error_code == 0
    with paused(cluster, slow):
        result, _ = produce_to(cluster.brokers[old], topic, acks=1, partition=index)
        assert result.error_code == 0
        until(
            lambda: cluster.log_bytes(heir, topic, index) == cluster.log_bytes(old, topic, index),
            "one follower has what the other lacks",
        )
        cluster.kill(old)
        until(
            lambda: cluster.partition(topic, index, of=cluster.brokers[heir]).leader_id == heir,
            "it leads",
        )
        with Connection(cluster.brokers[heir].bootstrap) as connection:
            latest = list_offset(connection, topic, LATEST, index)
            assert latest.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    with Connection(cluster.brokers[heir].bootstrap) as connection:
        until(lambda: list_offset(connection, topic, LATEST, index).offset == 2, "it knows")
    cluster.start(old)
    cluster.until_in_sync(topic)
