"""The group coordinator of this broker, with a runner for each `__consumer_offsets` partition led.

Rules kept here:
1. A request goes to the shard that its group belongs to, which checks everything in it, also the
   group's id. Where that shard is not here, the client gets NOT_COORDINATOR and looks for it again.
2. Offsets committed in a transaction count when its marker reaches the partition.
3. Groups learn of topics from the image, and of a change when it is carried out.
4. A setting that changes, of the broker or of one group, counts from the next request on; timers
   that run already are not set again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.coordinators.coordinators import Coordinators, segment_bytes
from ottla.broker.coordinators.group_topics import Topics
from ottla.broker.coordinators.latest_records import LatestRecords
from ottla.broker.coordinators.shard_runner import ShardRunner
from ottla.broker.replicas.partition import Partition
from ottla.broker.scheduling.waiting import settled
from ottla.config.group_configs import (
    ASSIGNMENT_INTERVAL,
    BROKER_SETTINGS,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    SHARE_ASSIGNMENT_INTERVAL,
    SHARE_HEARTBEAT_INTERVAL,
    SHARE_SESSION_TIMEOUT,
    STREAMS_ASSIGNMENT_INTERVAL,
    STREAMS_HEARTBEAT_INTERVAL,
    STREAMS_INITIAL_REBALANCE_DELAY,
    STREAMS_NUM_STANDBY_REPLICAS,
    STREAMS_SESSION_TIMEOUT,
    group_values,
)
from ottla.config.topic_names import GROUP_METADATA
from ottla.config.types import Value
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.group_shard import GroupShard
from ottla.coordinator.offsets.records import is_offset_key
from ottla.coordinator.shard import CoordinatorRecord, Effect, Result
from ottla.coordinator.share.effects import InitializeShareState
from ottla.coordinator.topics import TopicSummary
from ottla.later import Later
from ottla.metadata.image import TopicImage
from ottla.records.control import Marker, MarkerType, decode_marker
from ottla.wire.batch import BatchHeader
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.coordinators.context import CoordinatorContext

R = TypeVar("R")
START_UNKNOWN = -1
"""The leader of a share partition finds its start offset, by `share.auto.offset.reset`."""


class GroupRunner(ShardRunner[GroupShard]):
    """Runs one partition of `__consumer_offsets`."""

    def replay_batch(
        self, shard: GroupShard, gathered: LatestRecords, header: BatchHeader, batch: memoryview
    ) -> int:
        """Replay one batch: records, records of a transaction, or a transaction's end.

        Committed offsets are gathered; not so deletions, which also end what is pending.
        """
        if header.is_control:
            gathered.replay_all()
            if header.record_count:
                marker = decode_marker(batch)
                shard.complete_transaction(
                    marker.producer_id, commit=marker.type is MarkerType.COMMIT
                )
            return 0
        producer_id = header.producer_id if header.is_transactional else -1
        records = self.records_of(header, batch)
        for record in records:
            key, value = record.key or b"", record.value
            if producer_id == -1 and value is not None and is_offset_key(key):
                gathered.put(key, value)
            else:
                gathered.replay_all()
                shard.replay(CoordinatorRecord(key, value), producer_id)
        return len(records)

    def replay_own(self, shard: GroupShard, record: CoordinatorRecord, result: Result[Any]) -> None:
        """Replay a record that was appended just now, in the name of its producer."""
        shard.replay(record, -1 if result.producer is None else result.producer.producer_id)

    def execute(self, shard: GroupShard, effect: Effect) -> None:
        """Initialize share partitions at their coordinators."""
        match effect:
            case InitializeShareState():
                self._context.background.run(self._initialize(shard, effect))
            case _:
                super().execute(shard, effect)

    async def _initialize(self, shard: GroupShard, effect: InitializeShareState) -> None:
        offsets = {
            topic_id: dict.fromkeys(numbers, START_UNKNOWN)
            for topic_id, numbers in effect.partitions.items()
        }
        failed = await self._context.share_state.initialize(
            effect.group_id, effect.state_epoch, offsets
        )
        if self._shard is shard:
            self.perform(lambda its, now: its.share_state_initialized(effect, failed, now))

    def transaction_ended(self, producer_id: int, *, commit: bool) -> None:
        """A transaction's marker was appended to the partition."""
        shard = self._shard
        if shard is not None:
            shard.complete_transaction(producer_id, commit=commit)


class GroupCoordinator(Coordinators[GroupRunner]):
    """The groups of this broker."""

    topic = GROUP_METADATA

    def __init__(self, context: CoordinatorContext) -> None:
        super().__init__(context)
        self._topics = Topics(context)
        self._config_from, self._config = context.config, _settings(context)

    def partition_count(self) -> int:
        """`offsets.topic.num.partitions`."""
        return self.context.config.offsets_topic_num_partitions

    def replication_factor(self) -> int:
        """`offsets.topic.replication.factor`."""
        return self.context.config.offsets_topic_replication_factor

    def settings(self) -> dict[str, str]:
        """Compacted, in small segments."""
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": segment_bytes(self.context.config.offsets_topic_segment_bytes),
        }

    def make_runner(self, partition: Partition) -> GroupRunner:
        """A runner with the broker's settings."""
        topics = self._topics

        def make_shard() -> GroupShard:
            return GroupShard(
                _settings(self.context),
                topics,
                topics.matching,
                lambda: str(uuid.uuid4()),
                self._config_of,
                lambda: runner.largest_batch,
            )

        runner = GroupRunner(self.context, partition, make_shard)
        return runner

    def _config_of(self, group_id: str) -> GroupConfig:
        config = self.context.config
        if config is not self._config_from:
            self._config_from, self._config = config, _settings(self.context)
        own = self.context.image.group_configs.get(group_id)
        if own is None:
            return self._config
        broker = {name: getattr(config, name.replace(".", "_")) for name in BROKER_SETTINGS}
        values = group_values(own.configs, broker)
        return replace(
            self._config,
            group_consumer_session_timeout_ms=_int(values[SESSION_TIMEOUT]),
            group_consumer_heartbeat_interval_ms=_int(values[HEARTBEAT_INTERVAL]),
            group_consumer_assignment_interval_ms=_int(values[ASSIGNMENT_INTERVAL]),
            group_share_session_timeout_ms=_int(values[SHARE_SESSION_TIMEOUT]),
            group_share_heartbeat_interval_ms=_int(values[SHARE_HEARTBEAT_INTERVAL]),
            group_share_assignment_interval_ms=_int(values[SHARE_ASSIGNMENT_INTERVAL]),
            group_streams_session_timeout_ms=_int(values[STREAMS_SESSION_TIMEOUT]),
            group_streams_heartbeat_interval_ms=_int(values[STREAMS_HEARTBEAT_INTERVAL]),
            group_streams_assignment_interval_ms=_int(values[STREAMS_ASSIGNMENT_INTERVAL]),
            group_streams_initial_rebalance_delay_ms=_int(values[STREAMS_INITIAL_REBALANCE_DELAY]),
            group_streams_num_standby_replicas=_int(values[STREAMS_NUM_STANDBY_REPLICAS]),
        )

    def ask(
        self,
        group_id: str,
        decide: Callable[[GroupShard, int], Result[R]],
        refuse: Callable[[ErrorCode, str | None], R],
        *,
        decides_only: bool = False,
    ) -> R | Later[R]:
        """Let a group's shard decide; `refuse` makes the reply where there is no shard to ask."""
        try:
            reply = self.runner_of(group_id).ask(decide, decides_only=decides_only)
        except KafkaError as problem:
            return refuse(problem.code, problem.message)
        return _or_refusal(reply, refuse) if isinstance(reply, Later) else reply

    def ask_lingering(
        self,
        group_id: str,
        decide: Callable[[GroupShard, int], Result[R]],
        refuse: Callable[[ErrorCode, str | None], R],
        connection_id: int,
    ) -> R | Later[R]:
        """The same for a request whose records may be appended together with those of others.

        Where other replicas or the disk must have them too, or the last ones were refused, they are
        appended at once. Nothing but its records changes the shard: where these are refused it need
        not be read again.
        """
        try:
            runner = self.runner_of(group_id)
            if not runner.may_linger:
                return self.ask(group_id, decide, refuse, decides_only=True)
            return runner.ask_lingering(decide, connection_id)
        except KafkaError as problem:
            return refuse(problem.code, problem.message)

    def write_out(self, partition: int) -> None:
        """Append the records of a partition that linger, before others follow."""
        runner = self._runners.get(partition)
        if runner is not None:
            runner.write_lingering()

    async def ask_about(
        self,
        group_ids: list[str],
        decide: Callable[[GroupShard, list[str], int], Result[list[R]]],
        refuse: Callable[[str, ErrorCode, str | None], R],
    ) -> list[R]:
        """Ask each shard about those of the groups that it has; all answers together.

        Nothing but its records changes a shard by this.
        """
        answers: list[R] = []
        by_runner: dict[GroupRunner, list[str]] = {}
        for group_id in group_ids:
            try:
                by_runner.setdefault(self.runner_of(group_id), []).append(group_id)
            except KafkaError as problem:
                answers.append(refuse(group_id, problem.code, problem.message))
        for runner, ids in by_runner.items():
            answers += await self._ask_one(runner, ids, decide, refuse)
        return answers

    async def _ask_one(
        self,
        runner: GroupRunner,
        ids: list[str],
        decide: Callable[[GroupShard, list[str], int], Result[list[R]]],
        refuse: Callable[[str, ErrorCode, str | None], R],
    ) -> list[R]:
        try:
            reply = runner.ask(lambda shard, now: decide(shard, ids, now), decides_only=True)
            return await settled(reply)
        except KafkaError as problem:
            return [refuse(each, problem.code, problem.message) for each in ids]

    def transaction_ended(self, partition: int, marker: Marker) -> None:
        """A transaction's marker was appended to one of the partitions."""
        runner = self._runners.get(partition)
        if runner is not None:
            runner.transaction_ended(marker.producer_id, commit=marker.type is MarkerType.COMMIT)

    def topics_changed(self, deleted: list[TopicImage]) -> None:
        """Topics were created, deleted or given partitions."""
        self._topics.version += 1
        if deleted:
            gone = [TopicSummary(topic.name, topic.id, len(topic.assignment)) for topic in deleted]
            for runner in self:
                runner.perform(lambda shard, now: shard.topics_deleted(gone, now))


def _or_refusal(reply: Later[R], refuse: Callable[[ErrorCode, str | None], R]) -> Later[R]:
    """The reply, or what is said where the coordinator was dropped before it answered."""

    def refused(problem: BaseException) -> R:
        if isinstance(problem, KafkaError):
            return refuse(problem.code, problem.message)
        raise problem

    return reply.otherwise(refused)


def _int(value: Value) -> int:
    assert isinstance(value, int)
    return value


def _settings(context: CoordinatorContext) -> GroupConfig:
    config = context.config
    return GroupConfig(
        group_min_session_timeout_ms=config.group_min_session_timeout_ms,
        group_max_session_timeout_ms=config.group_max_session_timeout_ms,
        group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_max_size=config.group_max_size,
        group_consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        group_consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        group_consumer_max_size=config.group_consumer_max_size,
        group_consumer_assignors=config.group_consumer_assignors,
        group_consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        group_consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
        group_consumer_upgrade=config.group_consumer_migration_policy.lower()
        in ("upgrade", "bidirectional"),
        group_consumer_downgrade=config.group_consumer_migration_policy.lower()
        in ("downgrade", "bidirectional"),
        group_share_session_timeout_ms=config.group_share_session_timeout_ms,
        group_share_heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
        group_share_assignment_interval_ms=config.group_share_assignment_interval_ms,
        group_share_max_size=config.group_share_max_size,
        group_share_initialize_retry_interval_ms=config.group_share_initialize_retry_interval_ms,
        group_streams_session_timeout_ms=config.group_streams_session_timeout_ms,
        group_streams_heartbeat_interval_ms=config.group_streams_heartbeat_interval_ms,
        group_streams_assignment_interval_ms=config.group_streams_assignment_interval_ms,
        group_streams_initial_rebalance_delay_ms=config.group_streams_initial_rebalance_delay_ms,
        group_streams_num_standby_replicas=config.group_streams_num_standby_replicas,
        group_streams_max_size=config.group_streams_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
    )
