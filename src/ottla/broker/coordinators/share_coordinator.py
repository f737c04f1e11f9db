"""The share coordinator of this broker: a runner for each partition of `__share_group_state`.

Rules kept here:
1. All records are replayed, in their order: updates add to each other, the last one alone says
   nothing.
2. The log is pruned below the oldest of the latest snapshots: no replay needs what is older. With
   several replicas the deletion is recorded in the metadata store first, as DeleteRecords does.
3. A share partition belongs to the partition of the topic that the hash of
   `group:topicId:partition` names.
4. What is asked in one turn of the loop shares an append, whatever groups it is of.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from ottla.broker.coordinators.coordinators import Coordinators, segment_bytes
from ottla.broker.coordinators.group_topics import Topics
from ottla.broker.coordinators.latest_records import LatestRecords
from ottla.broker.coordinators.shard_runner import ShardRunner
from ottla.broker.replicas.partition import Partition
from ottla.config.topic_names import SHARE_GROUP_STATE
from ottla.coordinator.shard import CoordinatorRecord, Effect, ProducerIdentity, Result
from ottla.coordinator.share_state.records import SharePartitionKey
from ottla.coordinator.share_state.shard import PruneLog, ShareStateConfig, ShareStateShard
from ottla.later import Later
from ottla.metadata.deleted_records import record_deletions
from ottla.metadata.image import TopicImage
from ottla.metadata.store import StoreError
from ottla.wire.batch import BatchHeader
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.context.metadata_writer import MetadataWriter
    from ottla.broker.coordinators.context import CoordinatorContext

log = structlog.get_logger()


def coordinator_key(key: SharePartitionKey) -> str:
    """A share partition's key as FindCoordinator has it: the topic id as Kafka prints ids."""
    topic_id = urlsafe_b64encode(key.topic_id.bytes).decode().rstrip("=")
    return f"{key.group_id}:{topic_id}:{key.partition}"


Decide = Callable[[ShareStateShard, int], Result[Any]]


class _Asked(NamedTuple):
    decide: Decide
    answer: Later[Any]


def _give(asked: Iterable[_Asked], replies: Iterable[Any]) -> None:
    for each, reply in zip(asked, replies, strict=True):
        each.answer.complete(reply)


def _give_later(asked: Iterable[_Asked], replies: Later[list[Any]]) -> None:
    try:
        found = replies.result()
    except Exception as problem:  # noqa: BLE001 who asked gets it
        for each in asked:
            each.answer.fail(problem)
        return
    _give(asked, found)


class ShareStateRunner(ShardRunner[ShareStateShard]):
    """Runs one partition of `__share_group_state`."""

    decides_only = True
    metadata: MetadataWriter
    _next_offset = 0
    """The offset of the next record that is replayed after an append."""
    _asked: dict[SharePartitionKey, _Asked] = {}  # noqa: RUF012 replaced, never changed in place

    def ask_with_others(self, key: SharePartitionKey, decide: Decide) -> Later[Any]:
        """Ask the shard about a share partition, together with others of this turn."""
        if key in self._asked:
            self._ask_all()  # it has to see what came before
        if not self._asked:
            self._asked = {}
            asyncio.get_running_loop().call_soon(self._ask_all)
        answer: Later[Any] = Later()
        self._asked[key] = _Asked(decide, answer)
        return answer

    def _ask_all(self) -> None:
        asked, self._asked = [*self._asked.values()], {}
        if not asked:
            return

        def decide(shard: ShareStateShard, now: int) -> Result[list[Any]]:
            found = [each.decide(shard, now) for each in asked]
            records = [record for result in found for record in result.records]
            return Result([result.reply for result in found], records, is_atomic=False)

        try:
            replies = self.ask(decide)
        except Exception as problem:  # noqa: BLE001 who asked gets it
            for each in asked:
                each.answer.fail(problem)
            return
        if not isinstance(replies, Later):
            _give(asked, replies)
            return
        waiting = replies
        waiting.then(lambda: _give_later(asked, waiting))

    def replay_batch(
        self,
        shard: ShareStateShard,
        gathered: LatestRecords,
        header: BatchHeader,
        batch: memoryview,
    ) -> int:
        """Replay one batch."""
        if header.is_control:
            return 0
        records = self.records_of(header, batch)
        for record in records:
            shard.replay(CoordinatorRecord(record.key or b"", record.value), record.offset)
        return len(records)

    def _append_batch(
        self, records: list[CoordinatorRecord], producer: ProducerIdentity | None
    ) -> None:
        self._next_offset = self.partition.log.end_offset
        super()._append_batch(records, producer)

    def replay_own(
        self, shard: ShareStateShard, record: CoordinatorRecord, result: Result[Any]
    ) -> None:
        """Replay a record that was appended just now."""
        shard.replay(record, self._next_offset)
        self._next_offset += 1

    def execute(self, shard: ShareStateShard, effect: Effect) -> None:
        """Prune the log."""
        match effect:
            case PruneLog():
                below = shard.redundant_below
                if below is not None:
                    self._context.background.run(self._prune(below))
            case _:
                super().execute(shard, effect)

    async def _prune(self, below: int) -> None:
        partition, context = self.partition, self._context
        below = min(below, partition.high_watermark)
        if below <= partition.log.start_offset:
            return
        try:
            if partition.leadership is not None:
                where = {(partition.topic, partition.index): below}
                await self.metadata.change(
                    lambda image: (
                        None,
                        record_deletions(image, where, context.id, context.broker_epoch),
                    )
                )
            if partition.leads:
                partition.log.raise_start_offset(below)
                partition.wake_all()
        except (KafkaError, StoreError, OSError) as problem:
            log.warning(
                "failed to prune share group state", partition=str(partition), reason=str(problem)
            )


class ShareCoordinator(Coordinators[ShareStateRunner]):
    """The share partitions of this broker."""

    topic = SHARE_GROUP_STATE

    def __init__(self, context: CoordinatorContext, metadata: MetadataWriter) -> None:
        super().__init__(context)
        self._metadata = metadata
        self._topics = Topics(context)

    def partition_count(self) -> int:
        """`share.coordinator.state.topic.num.partitions`."""
        return self.context.config.share_coordinator_state_topic_num_partitions

    def replication_factor(self) -> int:
        """`share.coordinator.state.topic.replication.factor`."""
        return self.context.config.share_coordinator_state_topic_replication_factor

    def settings(self) -> dict[str, str]:
        """Kept for ever and pruned by the coordinator: compaction would lose updates."""
        config = self.context.config
        return {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
            "retention.ms": "-1",
            "segment.bytes": segment_bytes(config.share_coordinator_state_topic_segment_bytes),
        }

    def make_runner(self, partition: Partition) -> ShareStateRunner:
        """A runner with the broker's settings."""
        config = self.context.config
        settings = ShareStateConfig(
            config.share_coordinator_snapshot_update_records_per_snapshot,
            config.share_coordinator_cold_partition_snapshot_interval_ms,
            config.share_coordinator_state_topic_prune_interval_ms,
        )
        runner = ShareStateRunner(
            self.context,
            partition,
            lambda: ShareStateShard(settings, self._topics, lambda: runner.largest_batch),
        )
        runner.metadata = self._metadata
        return runner

    def runner_for(self, key: SharePartitionKey) -> ShareStateRunner:
        """The runner of a share partition; raises KafkaError where it is not here."""
        return self.runner_of(coordinator_key(key))

    def topics_changed(self, deleted: list[TopicImage]) -> None:
        """Topics were deleted: so is the state of their share partitions."""
        gone = [topic.id for topic in deleted]
        if gone:
            for runner in self:
                runner.perform(lambda shard, now: shard.topics_deleted(gone, now))
