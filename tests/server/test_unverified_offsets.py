"""Offsets of a transaction whose coordinator cannot be asked: the client gets a retriable error."""

import pytest

from ottla.embedded import Broker
from ottla.later import Later
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from testkit.raw import Connection
from tests.e2e.asking_groups import GROUP, find_coordinator
from tests.e2e.asking_transactions import new_transactional_producer
from tests.e2e.conftest import create_topic
from tests.server.inside import running


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_what_goes_wrong_between_brokers_is_told_as_what_clients_repeat(
    monkeypatch: pytest.MonkeyPatch, problem: ErrorCode, told: ErrorCode
) -> None:
    def fail(
        question: AddPartitionsToTxnTransaction,
    ) -> Later[AddPartitionsToTxnResult]:
        later: Later[AddPartitionsToTxnResult] = Later()
        later.fail(KafkaError(problem))
        return later

    with Broker() as broker, Connection(broker.bootstrap_servers) as client:
        create_topic(client, "t")
        find_coordinator(client, "group", GROUP)
        producer = new_transactional_producer(client, "id")
        monkeypatch.setattr(running(broker).server.node.transactions, "add_partitions", fail)
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        request = TxnOffsetCommitRequest(
            transactional_id=producer.transactional_id,
            group_id="group",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[place])],
        )
        answer = client.ask(request, TxnOffsetCommitResponse, 5)
        assert answer.topics[0].partitions[0].error_code == told
