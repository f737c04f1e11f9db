"""A marker that comes a second time, when its producer's next transaction is open already."""

from collections.abc import Iterator

import pytest

from ottla.embedded import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from testkit.raw import Connection
from tests.e2e.asking_transactions import (
    Producer,
    ended,
    fetch_committed,
    new_transactional_producer,
    send,
    visible,
)
from tests.e2e.conftest import create_topic
from tests.server.inside import on_loop, running

WRITE_MARKERS = 2
TRANSACTION_VERSION = 2


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def write_marker(client: Connection, producer: Producer, coordinator_epoch: int) -> int:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=coordinator_epoch,
        transaction_version=TRANSACTION_VERSION,
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    answer = client.ask(request, WriteTxnMarkersResponse, WRITE_MARKERS)
    return answer.markers[0].topics[0].partitions[0].error_code


def test_the_marker_of_one_transaction_does_not_commit_the_next(broker: Broker) -> None:
    with Connection(broker.bootstrap_servers) as client:
        create_topic(client, "t")
        producer = new_transactional_producer(client, "id")
        assert send(client, producer, "t", 0, "first") == 0
        producer = ended(client, producer, commit=True)
        log = running(broker).server.node.partitions.find("t", 0).log
        known = on_loop(broker, lambda: log.producers.by_id[producer.producer_id])
        assert write_marker(client, producer, known.coordinator_epoch) == 0
        assert send(client, producer, "t", 0, "second") == 0
        again = write_marker(client, producer, known.coordinator_epoch)
        assert again == ErrorCode.INVALID_PRODUCER_EPOCH
        ended(client, producer, commit=False)
        assert visible(fetch_committed(client, "t")) == ["first"]
