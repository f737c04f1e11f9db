"""A transaction ends while a broker still waits to hear that it is open: nothing joins it then."""

from collections.abc import Callable, Iterator

import pytest

from ottla.broker.broker_server import BrokerServer
from ottla.broker.replicas.partition import Partition
from ottla.embedded import Broker
from ottla.later import Later
from ottla.wire.batch import TRANSACTIONAL
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.produce import ProduceResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from testkit.batches import Batch, Plain
from testkit.raw import Connection, frame, request_bytes
from tests.e2e.asking import produce_request
from tests.e2e.asking_groups import GROUP, find_coordinator
from tests.e2e.asking_transactions import (
    OLD_END,
    OLD_PRODUCE,
    Producer,
    add_offsets,
    add_partitions,
    ended,
    new_transactional_producer,
)
from tests.e2e.conftest import create_topic
from tests.server.inside import on_loop, running, until

OLD_OFFSETS = 4
"""The last TxnOffsetCommit before which a producer adds the group itself."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


class SlowAnswers:
    """The coordinator's answers reach the client when they are released."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self._broker = broker
        self._held: list[tuple[Later[AddPartitionsToTxnResult], object]] = []
        transactions = running(broker).server.node.transactions
        ask = transactions.add_partitions

        def add_partitions(
            question: AddPartitionsToTxnTransaction,
        ) -> Later[AddPartitionsToTxnResult]:
            later: Later[AddPartitionsToTxnResult] = Later()
            self._held.append((later, ask(question)))
            return later

        monkeypatch.setattr(transactions, "add_partitions", add_partitions)

    def wait_for_one(self) -> None:
        until(self._broker, lambda: len(self._held) == 1)

    def let_go(self) -> None:
        ((later, answer),) = self._held
        assert isinstance(answer, AddPartitionsToTxnResult)
        on_loop(self._broker, lambda: later.complete(answer))


def open_transactions(broker: Broker, where: Callable[[BrokerServer], Partition]) -> int:
    node = running(broker).server.node
    return on_loop(broker, lambda: len(where(node).log.producers.ongoing))


def record(producer: Producer, topic: str) -> bytes:
    batch = Batch(
        [Plain(b"late")],
        attributes=TRANSACTIONAL,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
    )
    request = produce_request(topic, batch.build())
    request.transactional_id = producer.transactional_id
    return frame(request_bytes(request, OLD_PRODUCE))


def offset(producer: Producer, group: str, topic: str) -> bytes:
    place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[place])],
    )
    return frame(request_bytes(request, OLD_OFFSETS))


def test_a_record_that_was_verified_before_the_abort_is_not_written_behind_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Connection(broker.bootstrap_servers) as client, Connection(broker.bootstrap_servers) as it:
        create_topic(client, "t")
        producer = new_transactional_producer(client, "id")
        assert add_partitions(client, producer, "t") == [0]
        answers = SlowAnswers(broker, monkeypatch)
        it.send_bytes(record(producer, "t"))
        answers.wait_for_one()
        ended(client, producer, commit=False, version=OLD_END)
        answers.let_go()
        _, answer = it.receive(ProduceResponse, OLD_PRODUCE)
        code = answer.responses[0].partition_responses[0].error_code
        assert code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert open_transactions(broker, lambda node: node.partitions.find("t", 0)) == 0


def test_an_offset_that_was_verified_before_the_abort_is_not_written_behind_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Connection(broker.bootstrap_servers) as client, Connection(broker.bootstrap_servers) as it:
        create_topic(client, "t")
        find_coordinator(client, "group", GROUP)
        producer = new_transactional_producer(client, "id")
        assert add_offsets(client, producer, "group") == 0
        answers = SlowAnswers(broker, monkeypatch)
        it.send_bytes(offset(producer, "group", "t"))
        answers.wait_for_one()
        ended(client, producer, commit=False, version=OLD_END)
        answers.let_go()
        _, answer = it.receive(TxnOffsetCommitResponse, OLD_OFFSETS)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert open_transactions(broker, lambda node: node.groups.runner_of("group").partition) == 0
