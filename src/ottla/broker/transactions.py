"""The transaction coordinators of this broker, and the markers they have written.

Rules kept here:
1. A decision's markers are written only after the decision is committed.
2. The outcome of a marker is told to the shard that asked for it, once, and to no other.
3. A partition whose topic is gone needs no marker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.coordinators import Coordinators, segment_bytes
from ottla.broker.partition import Partition
from ottla.broker.shard_runner import ShardRunner
from ottla.cluster.store import StoreError
from ottla.config.topic_names import TRANSACTION_STATE
from ottla.coordinator.shard import Result, SetTimer
from ottla.coordinator.transactions import TransactionConfig, TransactionShard
from ottla.coordinator.transactions_result import NeedsProducerId, TxnMarkers, TxnResult
from ottla.coordinator.transactions_state import TopicPartition
from ottla.records.control import Marker, MarkerType, encode_marker
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.node import Node

R = TypeVar("R")
RETRY_MS = 1000


class TransactionRunner(ShardRunner[TransactionShard]):
    """Runs one partition of `__transaction_state`."""

    def carry_out_effects(self, shard: TransactionShard, result: Result[Any]) -> None:
        """Write the markers of decisions, once these are committed."""
        if isinstance(result, TxnResult):
            for markers in result.markers:
                self.partition.when_committed(
                    self.partition.log.end_offset,
                    lambda markers=markers: asyncio.get_running_loop().call_soon(  # type: ignore[misc]  # mypy cannot infer a default
                        self._write, shard, markers
                    ),
                )

    def _write(self, shard: TransactionShard, markers: TxnMarkers) -> None:
        if self._shard is not shard:
            return
        outcomes = {
            partition: write_marker(self._node, partition, markers)
            for partition in markers.partitions
        }
        self.perform(lambda shard, now: shard.markers_written(markers, outcomes, now))

    def _expire(self, key: Any) -> None:
        try:
            super()._expire(key)
        except NeedsProducerId:
            self._node.run_in_background(self._expire_with_new_id(key))

    async def _expire_with_new_id(self, key: Any) -> None:
        try:
            producer_id = await self._node.new_producer_id()
        except StoreError:
            again = SetTimer(key, self._node.now_ms() + RETRY_MS)
            self.perform(lambda *_: TxnResult(None, timers=[again]))
            return
        self.perform(lambda shard, now: shard.expire(key, now, producer_id))

    async def ask_with_producer_id(
        self, decide: Callable[[TransactionShard, int, int | None], TxnResult[R]]
    ) -> R:
        """Let the shard decide on a request that may need a new producer id."""
        try:
            reply = self.ask(lambda shard, now: decide(shard, now, None))
        except NeedsProducerId:
            producer_id = await self._node.new_producer_id()
            reply = self.ask(lambda shard, now: decide(shard, now, producer_id))
        return await reply if isinstance(reply, asyncio.Future) else reply


class Transactions(Coordinators[TransactionRunner]):
    """The transaction coordinators of this broker."""

    topic = TRANSACTION_STATE

    def partition_count(self) -> int:
        """`transaction.state.log.num.partitions`."""
        return self.node.config.transaction_state_log_num_partitions

    def settings(self) -> dict[str, str]:
        """Compacted, in small segments."""
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": segment_bytes(self.node.config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        }

    def make_runner(self, partition: Partition) -> TransactionRunner:
        """A runner with the node's settings."""
        config = self.node.config
        settings = TransactionConfig(
            config.transaction_max_timeout_ms,
            config.transactional_id_expiration_ms,
            config.transaction_remove_expired_transaction_cleanup_interval_ms,
        )
        return TransactionRunner(
            self.node,
            partition,
            lambda: TransactionShard(settings, partition.leader_epoch),
        )


def write_marker(node: Node, where: TopicPartition, markers: TxnMarkers) -> ErrorCode:
    """End a transaction in one partition of this broker; the outcome as an error code."""
    if where.topic not in node.image.topics:
        return ErrorCode.NONE
    kind = MarkerType.COMMIT if markers.commit else MarkerType.ABORT
    marker = Marker(kind, markers.coordinator_epoch, markers.producer_id, markers.producer_epoch)
    try:
        partition = node.partitions.find(where.topic, where.partition)
        node.end_transaction(partition, marker)
    except KafkaError as problem:
        return problem.code
    return ErrorCode.NONE


def marker_batch(marker: Marker, now: int) -> memoryview:
    """A marker's batch, in memory that can be stamped."""
    return memoryview(bytearray(encode_marker(marker, now)))
