"""The transaction coordinator of this broker: a runner for each partition of `__transaction_state`.

Rules kept here:
1. A decision's markers are written only after the decision is committed.
2. The outcome of a marker is reported to the shard that asked for it, once, and to no other.
3. Where another broker is the coordinator it is asked, on behalf of the caller (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import structlog

from ottla.broker.coordinators.coordinators import Coordinators, segment_bytes
from ottla.broker.coordinators.shard_runner import ShardRunner
from ottla.broker.coordinators.txn_markers import Outcomes, write_markers
from ottla.broker.replicas.partition import Partition
from ottla.broker.replication.link import LinkError
from ottla.broker.scheduling.waiting import settled
from ottla.config.topic_names import TRANSACTION_STATE
from ottla.coordinator.shard import Effect, RequestContext, Result, SetTimer
from ottla.coordinator.transactions.effects import NeedsProducerId, TxnMarkers
from ottla.coordinator.transactions.shard import TransactionConfig, TransactionShard
from ottla.later import Later
from ottla.metadata.elections import NO_LEADER
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)

log = structlog.get_logger()

R = TypeVar("R")
RETRY_MS = 1000
ADD_PARTITIONS_VERSION = 5


class TransactionRunner(ShardRunner[TransactionShard]):
    """Runs one partition of `__transaction_state`."""

    decides_only = True
    questions = (NeedsProducerId,)

    def execute(self, shard: TransactionShard, effect: Effect) -> None:
        """Write the markers of a decision."""
        match effect:
            case TxnMarkers():
                self._write(shard, effect)
            case _:
                super().execute(shard, effect)

    def _write(self, shard: TransactionShard, markers: TxnMarkers) -> None:
        def on_done(outcomes: Outcomes) -> None:
            if self._shard is shard:
                self.perform(lambda its, now: its.markers_written(markers, outcomes, now))

        write_markers(self._context, markers, on_done)

    def _expire(self, key: Any) -> None:
        try:
            super()._expire(key)
        except NeedsProducerId:
            self._context.background.run(self._expire_with_new_id(key))

    async def _expire_with_new_id(self, key: Any) -> None:
        try:
            producer_id = await self._context.new_producer_id()
        except Exception as problem:
            if not isinstance(problem, KafkaError):
                log.exception("failed to get a producer id; retrying")
            if key not in self._timers:
                self.perform(lambda *_: Result(None, timers=[SetTimer(key, RETRY_MS)]))
            return
        if key not in self._timers:  # else another transaction has begun, and has its own time
            self.perform(lambda shard, now: shard.expire(key, now, producer_id))

    async def ask_with_producer_id(
        self, decide: Callable[[TransactionShard, int, int | None], Result[R]]
    ) -> R:
        """Let the shard decide on a request that may need a new producer id."""
        try:
            reply = self.ask(lambda shard, now: decide(shard, now, None))
        except NeedsProducerId:
            producer_id = await self._context.new_producer_id()
            reply = self.ask(lambda shard, now: decide(shard, now, producer_id))
        return await settled(reply)


class TransactionCoordinator(Coordinators[TransactionRunner]):
    """The transactional ids of this broker."""

    topic = TRANSACTION_STATE

    def partition_count(self) -> int:
        """`transaction.state.log.num.partitions`."""
        return self.context.config.transaction_state_log_num_partitions

    def replication_factor(self) -> int:
        """`transaction.state.log.replication.factor`."""
        return self.context.config.transaction_state_log_replication_factor

    def settings(self) -> dict[str, str]:
        """Compacted, in small segments."""
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "min.insync.replicas": str(self.context.config.transaction_state_log_min_isr),
            "segment.bytes": segment_bytes(self.context.config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        }

    def make_runner(self, partition: Partition) -> TransactionRunner:
        """A runner with the broker's settings."""
        config = self.context.config
        settings = TransactionConfig(
            config.transaction_max_timeout_ms,
            config.transactional_id_expiration_ms,
            config.transaction_remove_expired_transaction_cleanup_interval_ms,
        )
        return TransactionRunner(
            self.context,
            partition,
            lambda: TransactionShard(
                settings, partition.leader_epoch, lambda: partition.log.largest_batch
            ),
        )

    def add_partitions(
        self, question: AddPartitionsToTxnTransaction
    ) -> AddPartitionsToTxnResult | Later[AddPartitionsToTxnResult]:
        """Add partitions to a transaction, or verify them, wherever its coordinator is.

        Raises KafkaError where there is none.
        """
        index = self.partition_of(question.transactional_id)
        leader = self.context.leader_of(self.topic, index).id
        if leader in (NO_LEADER, self.context.id):
            context = RequestContext(ADD_PARTITIONS_VERSION)
            return self.runner_of(question.transactional_id).ask(
                lambda shard, now: shard.handle_add_partitions(question, context, now)
            )
        answer: Later[AddPartitionsToTxnResult] = Later()
        self.context.background.run(self._ask_peer(leader, question, answer))
        return answer

    async def _ask_peer(
        self,
        leader: int,
        question: AddPartitionsToTxnTransaction,
        answer: Later[AddPartitionsToTxnResult],
    ) -> None:
        request = AddPartitionsToTxnRequest(transactions=[question])
        try:
            reply = await self.context.peers.ask(
                leader, request, AddPartitionsToTxnResponse, ADD_PARTITIONS_VERSION
            )
            if reply.error_code or len(reply.results_by_transaction) != 1:
                raise KafkaError(ErrorCode(reply.error_code or ErrorCode.NETWORK_EXCEPTION))
            result = reply.results_by_transaction[0]
        except LinkError as problem:
            answer.fail(KafkaError(ErrorCode.NETWORK_EXCEPTION, str(problem)))
        except KafkaError as problem:
            answer.fail(problem)
        else:
            answer.complete(result)
