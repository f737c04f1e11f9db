"""Does a batch belong to a transaction that is open? Asked before it is appended (KIP-890).

Rules kept here:
1. A producer's first batch of a transaction in a partition is appended only after the transaction's
   coordinator knows of the partition: Produce 12 and later adds it, older versions must have
   added it and are verified. Later batches of the same transaction pass: the log knows it is open.
2. So no batch can be left behind by a transaction that has ended: nothing would end it.
3. Where the answer is waited for, or a thread looks into the batch, the transaction may end
   meanwhile: its marker overtakes the batch. A producer that keeps its epoch over the end (before
   Produce 12) would not be noticed by it, so what was verified counts only while the partition has
   got no marker of that producer.
"""

from __future__ import annotations

from collections.abc import Coroutine
from struct import Struct
from typing import Any, Final, Protocol

from ottla.broker.replicas.partition import Partition
from ottla.broker.scheduling.waiting import settled
from ottla.config import BrokerConfig
from ottla.later import Later
from ottla.wire.batch import HEADER_SIZE, TRANSACTIONAL
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

FIRST_THAT_ADDS: Final = 12
FIRST_THAT_KNOWS_ABORTABLE: Final = 11
_ATTRIBUTES: Final = 22
"""Where the lower byte of a batch's attributes stands."""
_PRODUCER: Final = Struct(">qh")
_PRODUCER_AT: Final = 43
_RETRY: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Verdict = dict[tuple[str, int], KafkaError]
"""Why batches are refused, by topic and partition; those not in it may be appended."""


class TransactionCoordinators(Protocol):
    """The coordinators of all transactions, wherever they are."""

    def add_partitions(
        self, question: AddPartitionsToTxnTransaction
    ) -> AddPartitionsToTxnResult | Later[AddPartitionsToTxnResult]:
        """Add partitions to a transaction, or verify them; raises KafkaError."""


class VerificationGuard:
    """What a partition knew of a producer's transactions when the coordinator was asked."""

    __slots__ = ("_leader_epoch", "_marker", "_partition", "_producer_id")

    def __init__(self, partition: Partition, producer_id: int) -> None:
        self._partition = partition
        self._producer_id = producer_id
        self._leader_epoch = partition.leader_epoch
        self._marker = partition.log.producers.last_marker_of(producer_id)

    @classmethod
    def of_batch(cls, partition: Partition, records: memoryview) -> VerificationGuard:
        """That of the producer who sent a batch."""
        return cls(partition, _PRODUCER.unpack_from(records, _PRODUCER_AT)[0])

    @property
    def is_over(self) -> bool:
        """Whether the transaction may have ended here since, or under another leader."""
        partition = self._partition
        return (
            self._leader_epoch != partition.leader_epoch
            or self._marker != partition.log.producers.last_marker_of(self._producer_id)
        )


def overtaken() -> KafkaError:
    """What a producer gets whose transaction may have ended before the batch was appended."""
    return KafkaError(
        ErrorCode.NOT_ENOUGH_REPLICAS, "a transaction has ended before its batch was appended"
    )


def is_transactional(records: memoryview | None) -> bool:
    """True if a batch says that it is part of a transaction."""
    return (
        records is not None
        and len(records) >= HEADER_SIZE
        and bool(records[_ATTRIBUTES] & TRANSACTIONAL)
    )


def verify(
    coordinators: TransactionCoordinators,
    config: BrokerConfig,
    transactional_id: str,
    version: int,
    batches: list[tuple[Partition, memoryview]],
) -> Verdict | Coroutine[Any, Any, Verdict]:
    """Ask the coordinator about the batches that begin a transaction in their partition."""
    if version < FIRST_THAT_ADDS and not config.transaction_partition_verification_enable:
        return {}
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    moments: dict[tuple[str, int], VerificationGuard] = {}
    producer = (-1, -1)
    for partition, records in batches:
        producer = _PRODUCER.unpack_from(records, _PRODUCER_AT)
        known = partition.log.producers.by_id.get(producer[0])
        if known is None or known.txn_first_offset < 0 or known.epoch != producer[1]:
            topic = topics.setdefault(
                partition.topic, AddPartitionsToTxnTopic(name=partition.topic)
            )
            topic.partitions.append(partition.index)
            if version < FIRST_THAT_ADDS:
                moments[partition.topic, partition.index] = VerificationGuard(
                    partition, producer[0]
                )
    if not topics:
        return {}
    question = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=version < FIRST_THAT_ADDS,
        topics=list(topics.values()),
    )
    try:
        answer = coordinators.add_partitions(question)
    except KafkaError as problem:
        failure = _told(problem.code, version)
        return {(name, index): failure for name in topics for index in topics[name].partitions}
    if not isinstance(answer, Later):
        return _verdict(answer, version)
    return _verdict_later(answer, moments, topics, version)


async def _verdict_later(
    answer: Later[AddPartitionsToTxnResult],
    moments: dict[tuple[str, int], VerificationGuard],
    topics: dict[str, AddPartitionsToTxnTopic],
    version: int,
) -> Verdict:
    """The verdict when the answer is there. It is true of now: to be used before any other wait."""
    try:
        verdict = _verdict(await settled(answer), version)
    except KafkaError as problem:
        failure = _told(problem.code, version)
        return {(name, index): failure for name in topics for index in topics[name].partitions}
    return {where: overtaken() for where, moment in moments.items() if moment.is_over} | verdict


def _verdict(answer: AddPartitionsToTxnResult, version: int) -> Verdict:
    return {
        (topic.name, result.partition_index): _told(result.partition_error_code, version)
        for topic in answer.topic_results
        for result in topic.results_by_partition
        if result.partition_error_code
    }


def _told(code: int, version: int) -> KafkaError:
    """The error for a producer of this version: older ones do not know every error."""
    error = ErrorCode(code)
    if error == ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if error == ErrorCode.CONCURRENT_TRANSACTIONS and version >= FIRST_THAT_ADDS:
        return KafkaError(error)
    if error in _RETRY:
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction could not be verified: {error.name}"
        )
    if error == ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_THAT_KNOWS_ABORTABLE:
        error = ErrorCode.INVALID_TXN_STATE
    if error in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE):
        return KafkaError(error, "the partition was not added to the transaction")
    return KafkaError(error)
