"""Transactions on the wire: what a read_committed reader sees, and when."""

import time
from collections.abc import Callable

import pytest

from compat.batches import now_ms
from compat.raw import PATIENCE_SECONDS, Connection
from ottla.records import decode_batch
from ottla.wire.batch import headers
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from ottla.wire.messages.fetch import FetchResponse, PartitionData
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.e2e.asking import FETCH, LATEST, LIST_OFFSETS, From, fetch_request, partitions_of
from tests.e2e.asking_groups import committed, coordinated, fetch_offset
from tests.e2e.asking_transactions import (
    OLD_END,
    OLD_PRODUCE,
    READ_COMMITTED,
    Producer,
    add_offsets,
    add_partitions,
    commit_offset,
    describe_transaction,
    end,
    ended,
    fetch_committed,
    init_producer,
    new_transactional_producer,
    send,
)
from tests.e2e.conftest import OwnBroker, Topics, create_topic

SOON_MS = 1_000


@pytest.fixture
def new_producer(connection: Connection, new_name: Callable[[], str]) -> Callable[[], Producer]:
    return lambda: new_transactional_producer(connection, new_name())


@pytest.fixture
def producer(new_producer: Callable[[], Producer]) -> Producer:
    return new_producer()


def values(found: PartitionData) -> list[str]:
    """What a reader with read_committed makes of a fetch's answer, as every client does it."""
    aborted = {each.producer_id: each.first_offset for each in found.aborted_transactions or []}
    ranges = sorted((each.first_offset, each.producer_id) for each in found.aborted_transactions or [])
    hidden: set[int] = set()
    kept = []
    data = memoryview(found.records or b"")
    for header, at in headers(data):
        while ranges and ranges[0][0] <= header.base_offset + header.last_offset_delta:
            hidden.add(ranges.pop(0)[1])
        batch = data[at : at + header.size]
        if header.is_control:
            hidden.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in hidden):
            kept += [(record.value or b"").decode() for record in decode_batch(batch)]
    assert aborted or not found.aborted_transactions
    return kept
