"""A producer's first batches, of which the first is refused for the moment: none goes before it."""

from collections.abc import Iterator

import pytest

from ottla.embedded import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.produce import ProduceResponse
from testkit.batches import Batch
from testkit.raw import Connection, frame, request_bytes
from tests.e2e.asking import PRODUCE, produce_request
from tests.e2e.conftest import create_topic
from tests.server.inside import on_loop, running

STRANGER = 4711
"""A producer that no log knows."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def ask(client: Connection, sequence: int) -> int:
    batch = Batch(producer_id=STRANGER, producer_epoch=0, base_sequence=sequence).build()
    client.send_bytes(frame(request_bytes(produce_request("t", batch), PRODUCE)))
    _, answer = client.receive(ProduceResponse, PRODUCE)
    return answer.responses[0].partition_responses[0].error_code


def test_a_batch_is_not_written_before_one_that_found_no_leader(broker: Broker) -> None:
    node = running(broker).server.node
    with Connection(broker.bootstrap_servers) as client:
        create_topic(client, "t")
        partition = node.partitions.find("t", 0)
        on_loop(broker, partition.stand_by)
        assert ask(client, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        on_loop(broker, lambda: partition.lead(partition.leader_epoch + 1, None))
        assert ask(client, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert ask(client, 2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [ask(client, sequence) for sequence in range(3)] == [0, 0, 0]
        assert not node.rejected_batches
