"""What a follower gets above the high watermark does not change on its way, whatever the log does.

sendfile queues the pages of the file. A leader that lost its role truncates and copies the new
leader's batches into the same places, and a slow follower would receive those.
"""

import socket
from collections.abc import Iterator

import pytest

from ottla.broker.replicas.partition import Partition
from ottla.embedded import Broker
from ottla.log.storage.file_cache import Slice
from ottla.wire.batch import headers
from ottla.wire.fetch_answer import read_answer
from ottla.wire.headers import read_response_header
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from testkit.raw import Connection
from testkit.waiting import until
from tests.broker.nodes import write
from tests.e2e.conftest import create_topic
from tests.server.inside import connections, on_loop, running
from tests.server.sharing import SOMEBODY_ELSE, shared

VERSION = 18
BATCHES = 8
BATCH_BYTES = 1 << 19


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as one:
        with Connection(one.bootstrap_servers) as client:
            create_topic(client, "t")
        yield one


def filled(broker: Broker, committed: int) -> Partition:
    """A partition whose follower has asked for nothing yet."""
    node = running(broker).server.node
    partition = on_loop(broker, lambda: node.partitions.find("t", 0))
    on_loop(broker, lambda: write(partition, BATCHES, BATCH_BYTES))
    return shared(broker, "t", committed=committed)


def ask(broker: Broker, partition: Partition, offset: int = 0) -> Connection:
    """A follower that asks for everything and does not read what it gets."""
    follower = Connection(broker.bootstrap_servers)
    follower.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    fetch = FetchRequest(
        replica_state=ReplicaState(replica_id=SOMEBODY_ELSE, replica_epoch=1),
        max_wait_ms=1000,
        min_bytes=1,
        max_bytes=1 << 30,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic_id=partition.topic_id,
                partitions=[
                    FetchPartition(
                        partition=0,
                        current_leader_epoch=partition.leader_epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=0 if offset else -1,
                        log_start_offset=0,
                        partition_max_bytes=1 << 30,
                    )
                ],
            )
        ],
    )
    follower.send(fetch, VERSION)
    return follower


def parts_on_their_way(broker: Broker) -> list[object]:
    return [
        part
        for connection in connections(broker)
        for part in on_loop(broker, lambda c=connection: list(c.protocol.outbox.parts))  # type: ignore[misc]
    ]


def records_of(follower: Connection) -> bytes:
    answer = memoryview(follower.receive_frame())
    _, at = read_response_header(answer, FetchRequest.API_KEY, VERSION)
    ((_, (found,)),) = read_answer(answer, at, VERSION).topics
    assert found.error_code == 0
    return bytes(found.records)


def test_a_follower_gets_what_was_there_when_it_was_answered(broker: Broker) -> None:
    partition = filled(broker, committed=0)
    log = partition.log
    before = (log.directory / f"{0:020d}.log").read_bytes()
    with ask(broker, partition) as follower:
        until(lambda: bool(parts_on_their_way(broker)), "the answer waits for its reader")

        def truncate_and_write_others() -> None:
            log.truncate_to(0)
            partition.leader_epoch += 1
            write(partition, BATCHES, BATCH_BYTES)

        on_loop(broker, truncate_and_write_others)
        found = records_of(follower)
    assert {header.leader_epoch for _, header in headers(memoryview(found))} == {0}
    assert found == before


def test_what_is_committed_leaves_by_sendfile(broker: Broker) -> None:
    """An answer has one or the other: what follows is asked for next."""
    partition = filled(broker, committed=BATCHES - 2)
    before = (partition.log.directory / f"{0:020d}.log").read_bytes()
    with ask(broker, partition) as follower:
        until(lambda: bool(parts_on_their_way(broker)), "the answer waits for its reader")
        assert any(isinstance(part, Slice) for part in parts_on_their_way(broker))
        found = records_of(follower)
    assert before.startswith(found)
    ends = [header.next_offset for _, header in headers(memoryview(found))]
    assert ends[-1] == BATCHES - 2
    with ask(broker, partition, offset=BATCHES - 2) as follower:
        assert before == found + records_of(follower)
