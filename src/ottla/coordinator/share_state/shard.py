"""The share coordinator of one partition of `__share_group_state`: a handler for each request.

Each handler takes the part of a request that concerns one share partition.

Rules kept here, beside those of `coordinator/shard.py`:
1. A write by an older leader epoch is refused with FENCED_LEADER_EPOCH, one of another state epoch
   with FENCED_STATE_EPOCH; neither changes anything. -1 is not checked. (Kafka takes a newer state
   epoch. But a group that was deleted and created again begins with the first one, and a leader
   that still has the old group's state must not write it.)
2. A read by a newer leader epoch writes that epoch, which fences the old leader.
3. What is not initialized can neither be read nor written (INVALID_REQUEST); its summary says so.
4. After `share.coordinator.snapshot.update.records.per.snapshot` updates comes a snapshot. A share
   partition that was not written for a while gets one, too, so that the log can be pruned.
5. The state of partitions of deleted topics is deleted.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from ottla.coordinator.batch_sizes import UNLIMITED
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import CoordinatorRecord, Effect, Result, UnknownRecordError
from ottla.coordinator.share_state.batches import StateBatch, combined
from ottla.coordinator.share_state.records import (
    SharePartitionKey,
    ShareSnapshotValue,
    ShareUpdateValue,
    parts,
    read_record,
    write_record,
    write_tombstone,
)
from ottla.coordinator.share_state.state import NO_COUNT, NO_OFFSET, ShareState, from_snapshot
from ottla.coordinator.topics import TopicView
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import NO_UUID
from ottla.wire.messages import delete_share_group_state as deleting
from ottla.wire.messages import initialize_share_group_state as initializing
from ottla.wire.messages import read_share_group_state as reading
from ottla.wire.messages import read_share_group_state_summary as summaries
from ottla.wire.messages import write_share_group_state as writing

UNCHECKED: Final = -1
COLD_SNAPSHOTS: Final = "cold share partitions get a snapshot"
PRUNE: Final = "the log is pruned"
SNAPSHOTS_AT_ONCE: Final = 500


class ShareStateConfig(Struct, frozen=True):
    """The broker settings that the share coordinator depends on; the defaults are Kafka's."""

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000
    prune_interval_ms: int = 300_000


class PruneLog(Effect, frozen=True, gc=False):
    """Delete the records of the partition that no replay needs (`redundant_below`)."""


class ShareStateShard:
    """The share partitions of one partition of `__share_group_state`."""

    def __init__(
        self,
        config: ShareStateConfig,
        topics: TopicView,
        largest_batch: Callable[[], int] = lambda: UNLIMITED,
    ) -> None:
        self._config = config
        self._topics = topics
        self._largest_batch = largest_batch
        self.states: dict[SharePartitionKey, ShareState] = {}
        self.skipped: Counter[str] = Counter()
        self._snapshots: dict[SharePartitionKey, int] = {}
        """The offset of each share partition's latest snapshot."""
        self._last_offset = -1

    @property
    def redundant_below(self) -> int | None:
        """The offset that a replay could begin with; None where nothing was written."""
        if self._last_offset < 0:
            return None
        return min(self._snapshots.values(), default=self._last_offset + 1)

    def replay(self, record: CoordinatorRecord, offset: int = -1) -> None:
        """Apply a record that is at an offset of the partition."""
        self._last_offset = offset
        try:
            key, _, value = read_record(record)
        except UnknownRecordError as unknown:
            self.skipped[str(unknown)] += 1
            return
        before = self.states.get(key)
        if value is None:
            self.states.pop(key, None)
            self._snapshots.pop(key, None)
        elif isinstance(value, ShareSnapshotValue):
            self.states[key] = from_snapshot(value, before)
            self._snapshots[key] = offset
        else:
            self.states[key] = (before or ShareState()).updated(value)
            # Without a snapshot this one must stay: Kafka's log may begin so after it was pruned.
            self._snapshots.setdefault(key, offset)

    def loaded(self, now: int) -> Result[None]:
        """Look for cold partitions from time to time; delete what is of deleted topics."""
        draft = ResultDraft(now, self._largest_batch, is_atomic=False)
        gone = {key.topic_id for key in self.states if self._topics.by_id(key.topic_id) is None}
        self._delete_topics(gone, draft)
        draft.set_timer(COLD_SNAPSHOTS, self._config.cold_snapshot_interval_ms)
        draft.set_timer(PRUNE, self._config.prune_interval_ms)
        return draft.result(None)

    def expire(self, key: Hashable, now: int) -> Result[None]:
        """Prune the log, or write snapshots of partitions that were not written for a while."""
        draft = ResultDraft(now, self._largest_batch, is_atomic=False)
        if key == PRUNE:
            draft.effects.append(PruneLog())
            draft.set_timer(PRUNE, self._config.prune_interval_ms)
            return draft.result(None)
        interval = self._config.cold_snapshot_interval_ms
        # Where all are cold nothing is gained by it.
        if any(state.updates or state.created_at == state.written_at for state in self._values()):
            for partition, state in self.states.items():
                if now - state.written_at >= interval and len(draft.records) < SNAPSHOTS_AT_ONCE:
                    draft.records.append(write_record(partition, state.to_snapshot(now)))
        draft.set_timer(COLD_SNAPSHOTS, interval)
        return draft.result(None)

    def _values(self) -> Iterable[ShareState]:
        return self.states.values()

    def topics_deleted(self, topic_ids: Iterable[UUID], now: int) -> Result[None]:
        """Delete the state of deleted topics."""
        draft = ResultDraft(now, self._largest_batch, is_atomic=False)
        self._delete_topics(set(topic_ids), draft)
        return draft.result(None)

    def _delete_topics(self, topic_ids: set[UUID], draft: ResultDraft) -> None:
        draft.records.extend(
            write_tombstone(key) for key in self.states if key.topic_id in topic_ids
        )

    def handle_initialize(
        self, key: SharePartitionKey, asked: initializing.PartitionData, now: int
    ) -> Result[initializing.PartitionResult]:
        """InitializeShareGroupState: begin again, at an offset or (-1) where the leader decides."""
        draft = ResultDraft(now, self._largest_batch)
        try:
            self._check_named(key)
            before = self.states.get(key)
            if before is not None and UNCHECKED != asked.state_epoch < before.state_epoch:
                raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
            self._check_topic(key)
            snapshot = ShareSnapshotValue(
                snapshot_epoch=0 if before is None else before.snapshot_epoch + 1,
                state_epoch=max(asked.state_epoch, before.state_epoch if before else -1),
                leader_epoch=0 if before is None else before.leader_epoch,
                start_offset=asked.start_offset,
                delivery_complete_count=NO_COUNT if asked.start_offset == NO_OFFSET else 0,
                create_timestamp=now,
                write_timestamp=now,
            )
            draft.records.append(write_record(key, snapshot))
            draft.check_fits()
        except KafkaError as problem:
            return ResultDraft(now).result(
                initializing.PartitionResult(
                    partition=key.partition,
                    error_code=problem.code,
                    error_message=problem.message,
                )
            )
        return draft.result(initializing.PartitionResult(partition=key.partition))

    def handle_read(
        self, key: SharePartitionKey, asked: reading.PartitionData, now: int
    ) -> Result[reading.PartitionResult]:
        """ReadShareGroupState: the whole state, for the partition's leader."""
        draft = ResultDraft(now, self._largest_batch)
        try:
            state = self._initialized(key, "Read")
            if asked.leader_epoch < state.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            self._check_topic(key)
            if asked.leader_epoch > state.leader_epoch:
                fenced = replace(state, leader_epoch=asked.leader_epoch)
                draft.records.append(self._written(key, fenced, (), NO_OFFSET, now))
                draft.check_fits()
        except KafkaError as problem:
            return ResultDraft(now).result(
                reading.PartitionResult(
                    partition=key.partition,
                    error_code=problem.code,
                    error_message=problem.message,
                )
            )
        return draft.result(
            reading.PartitionResult(
                partition=key.partition,
                state_epoch=state.state_epoch,
                start_offset=state.start_offset,
                state_batches=[
                    reading.StateBatch(
                        first_offset=batch.first_offset,
                        last_offset=batch.last_offset,
                        delivery_state=batch.delivery_state,
                        delivery_count=batch.delivery_count,
                    )
                    for batch in state.batches
                ],
            )
        )

    def handle_write(
        self, key: SharePartitionKey, asked: writing.PartitionData, now: int
    ) -> Result[writing.PartitionResult]:
        """WriteShareGroupState: a change that the partition's leader made."""
        draft = ResultDraft(now, self._largest_batch)
        try:
            state = self._initialized(key, "Write")
            if UNCHECKED != asked.leader_epoch < state.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            if asked.state_epoch not in (UNCHECKED, state.state_epoch):
                raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
            self._check_topic(key)
            changed = replace(state, delivery_complete_count=asked.delivery_complete_count)
            batches = tuple(
                StateBatch(
                    each.first_offset, each.last_offset, each.delivery_state, each.delivery_count
                )
                for each in asked.state_batches
            )
            draft.records.append(self._written(key, changed, batches, asked.start_offset, now))
            draft.check_fits()
        except KafkaError as problem:
            return ResultDraft(now).result(
                writing.PartitionResult(
                    partition=key.partition,
                    error_code=problem.code,
                    error_message=problem.message,
                )
            )
        return draft.result(writing.PartitionResult(partition=key.partition))

    def _written(
        self,
        key: SharePartitionKey,
        state: ShareState,
        batches: tuple[StateBatch, ...],
        start_offset: int,
        now: int,
    ) -> CoordinatorRecord:
        """The record of a change: an update, or from time to time a snapshot."""
        update = ShareUpdateValue(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=state.delivery_complete_count,
            state_batches=parts(combined(batches, start_offset)),
        )
        if state.updates < self._config.updates_per_snapshot:
            return write_record(key, update)
        return write_record(key, replace(state.updated(update), created_at=now).to_snapshot(now))

    def handle_delete(self, key: SharePartitionKey, now: int) -> Result[deleting.PartitionResult]:
        """DeleteShareGroupState; what is not there needs no deletion."""
        draft = ResultDraft(now, self._largest_batch)
        try:
            self._check_named(key)
            self._check_topic(key)
            if key in self.states:
                draft.records.append(write_tombstone(key))
                draft.check_fits()
        except KafkaError as problem:
            return ResultDraft(now).result(
                deleting.PartitionResult(
                    partition=key.partition,
                    error_code=problem.code,
                    error_message=problem.message,
                )
            )
        return draft.result(deleting.PartitionResult(partition=key.partition))

    def handle_summary(self, key: SharePartitionKey, now: int) -> Result[summaries.PartitionResult]:
        """ReadShareGroupStateSummary: where the share partition is, without its batches."""
        draft = ResultDraft(now)
        try:
            self._check_named(key)
            self._check_topic(key)
        except KafkaError as problem:
            return draft.result(
                summaries.PartitionResult(
                    partition=key.partition,
                    error_code=problem.code,
                    error_message=problem.message,
                )
            )
        state = self.states.get(key, ShareState())
        return draft.result(
            summaries.PartitionResult(
                partition=key.partition,
                state_epoch=state.state_epoch,
                leader_epoch=state.leader_epoch,
                start_offset=state.start_offset,
                delivery_complete_count=state.delivery_complete_count,
            )
        )

    def _initialized(self, key: SharePartitionKey, what: str) -> ShareState:
        self._check_named(key)
        state = self.states.get(key)
        if state is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{what} operation on uninitialized share partition not allowed.",
            )
        return state

    def _check_named(self, key: SharePartitionKey) -> None:
        if key.topic_id == NO_UUID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The topic id cannot be null.")
        if key.partition < 0:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number."
            )

    def _check_topic(self, key: SharePartitionKey) -> None:
        topic = self._topics.by_id(key.topic_id)
        if topic is None or key.partition >= topic.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
