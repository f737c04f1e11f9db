"""The group coordinator of one partition of `__consumer_offsets`: its whole public face.

Each handler takes a request (or the part of it that concerns this shard), says what to reply, and
what to write, in a Result. What it decides by is in the modules that it calls.

Rules kept here, beside those of `shard.py`:
1. A request that is refused changes nothing; what was gathered for it is thrown away.
2. Offsets expire in slices, so that a shard with many groups does not hold up the others.
3. A group whose records do not fit into a batch is refused alone (UNKNOWN_SERVER_ERROR, as in
   Kafka; COORDINATOR_NOT_AVAILABLE where nothing fits at the moment). A timer that cannot be
   written is tried again after a while.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from ottla.coordinator.batch_sizes import UNLIMITED
from ottla.coordinator.classic import requests as classic_requests
from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.classic.join import UNKNOWN_MEMBER_ID, ClassicJoin, refuse
from ottla.coordinator.classic.rebalance import (
    expect_heartbeat,
    expire_join,
    expire_session,
    expire_sync,
    group_record,
    start_rebalance,
)
from ottla.coordinator.consumer import classic_members as consumer_classic
from ottla.coordinator.consumer import heartbeat as consumer_heartbeat
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.leave import CONSUMER_TIMERS, remove_members
from ottla.coordinator.consumer.member import MemberState
from ottla.coordinator.consumer.records import group_tombstones
from ottla.coordinator.group_config import ConfigOf, GroupConfig
from ottla.coordinator.group_listing import described, described_consumer_group, listed
from ottla.coordinator.group_replay import replay
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.group_timers import GroupTimer, TimerKind
from ottla.coordinator.offsets.commit import commit, commit_in_transaction
from ottla.coordinator.offsets.fetch import fetch
from ottla.coordinator.offsets.removal import (
    delete_group,
    delete_offsets,
    delete_offsets_of_topics,
    expire_group,
)
from ottla.coordinator.offsets.store import NO_PRODUCER_ID, CommittedOffset, TopicPartition
from ottla.coordinator.record_codec import read_record
from ottla.coordinator.shard import (
    CoordinatorRecord,
    Deferred,
    ProducerIdentity,
    RequestContext,
    Result,
)
from ottla.coordinator.step import Step
from ottla.coordinator.topics import TopicInfo, TopicMatcher, TopicView
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import consumer_group_describe as consumer_messages
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.describe_groups import DescribedGroup
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

BATCHED_LEAVE_FROM = 3
PROTOCOL_IN_SYNC_FROM = 5
GROUPS_IN_A_SLICE = 200
OFFSETS_IN_A_SLICE = 1_000
RETRY_MS = 500
"""Kafka's, for a timer whose records could not be written."""

_EXPIRY = GroupTimer(TimerKind.EXPIRE_OFFSETS)


class GroupShard:
    """The groups and offsets of one partition."""

    def __init__(
        self,
        config: GroupConfig,
        topics: TopicView,
        matching_topics: TopicMatcher,
        new_id: Callable[[], str],
        config_of: ConfigOf | None = None,
        largest_batch: Callable[[], int] = lambda: UNLIMITED,
    ) -> None:
        """`largest_batch` says what the partition takes at the moment, 0 where it takes nothing."""
        self._state = GroupState(
            config, topics, matching_topics, new_id, config_of or (lambda group_id: config)
        )
        self._largest_batch = largest_batch
        self._is_loading = True
        self._to_expire: list[str] = []

    def _step(self, now: int) -> Step:
        return Step(now, self._largest_batch)

    def replay(self, record: CoordinatorRecord, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record, with the producer id of its batch where that is transactional."""
        parsed = read_record(record)
        if parsed is not None:
            replay(self._state, parsed.key, parsed.value, producer_id, is_loading=self._is_loading)

    def positions(self) -> list[tuple[str, int, Mapping[TopicPartition, CommittedOffset]]]:
        """Each group's id, the number of its members, and its committed offsets; for metrics."""
        offsets = self._state.offsets
        return [
            (group_id, len(group.members), offsets.of_group(group_id))
            for group_id, group in self._state.groups.items()
        ]

    def complete_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply a transaction marker, right after it was appended or when it is loaded."""
        self._state.offsets.end_transaction(producer_id, commit=commit)

    def loaded(self, now: int) -> Result[None]:
        """Start the sessions of all members."""
        self._is_loading = False
        step = self._step(now)
        config = self._state.config
        for group in self._state.groups.values():
            if isinstance(group, ClassicGroup):
                for classic_member in group.members.values():
                    expect_heartbeat(group, classic_member, step)
                if len(group.members) > config.group_max_size:
                    start_rebalance(config, group, step)
                continue
            timeout_ms = self._state.config_of(group.group_id).group_consumer_session_timeout_ms
            for member in group.members.values():
                session = GroupTimer(TimerKind.CONSUMER_SESSION, group.group_id, member.member_id)
                step.set_timer(session, timeout_ms)
                if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                    revocation = GroupTimer(
                        TimerKind.CONSUMER_REBALANCE, group.group_id, member.member_id
                    )
                    step.set_timer(revocation, member.rebalance_timeout_ms)
        step.set_timer(_EXPIRY, config.offsets_retention_check_interval_ms)
        return step.result(None)

    def expire(self, key: Hashable, now: int) -> Result[None]:
        """A timer is due."""
        step = self._step(now)
        if not isinstance(key, GroupTimer):
            raise TypeError(f"{key!r} is not a timer of groups")
        if key == _EXPIRY:
            self._expire_offsets(step)
            return step.result(None)
        group, config = self._state.groups.get(key.group_id), self._state.config
        if isinstance(group, ClassicGroup):
            if key.kind is TimerKind.CLASSIC_SESSION:
                expire_session(config, group, key.member_id, step)
            elif key.kind is TimerKind.CLASSIC_JOIN:
                expire_join(config, group, step)
            elif key.kind is TimerKind.CLASSIC_SYNC:
                expire_sync(config, group, step)
        elif (
            isinstance(group, ConsumerGroup)
            and key.kind in CONSUMER_TIMERS
            and key.member_id in group.members
        ):
            try:
                remove_members(self._state, group, [key.member_id], step)
            except KafkaError:
                step = self._step(now)
                step.set_timer(key, RETRY_MS)
        return step.result(None)

    def _expire_offsets(self, step: Step) -> None:
        step.is_atomic = False
        if not self._to_expire:
            self._to_expire = list(self._state.groups)
        for _ in range(min(GROUPS_IN_A_SLICE, len(self._to_expire))):
            room = OFFSETS_IN_A_SLICE - len(step.records)
            group_id = self._to_expire[-1]
            if group_id in self._state.groups and not expire_group(
                self._state, group_id, step, room
            ):
                break  # it has more, and comes first in the next slice
            self._to_expire.pop()
        interval = self._state.config.offsets_retention_check_interval_ms
        step.set_timer(_EXPIRY, 0 if self._to_expire else interval)

    def topics_deleted(self, topics: Iterable[TopicInfo], now: int) -> Result[None]:
        """Delete the offsets of topics that are gone.

        Groups that use the topics see it, as every other change, by the version of the view.
        """
        step = self._step(now)
        step.is_atomic = False
        delete_offsets_of_topics(self._state, topics, step)
        return step.result(None)

    def handle_join_group(
        self, request: JoinGroupRequest, context: RequestContext, now: int
    ) -> Result[JoinGroupResponse]:
        """JoinGroup, versions 0 to 9."""
        step = self._step(now)
        state, config = self._state, self._state.config
        if not request.group_id:
            return step.result(refuse(ErrorCode.INVALID_GROUP_ID, request.member_id))
        if not (
            config.group_min_session_timeout_ms
            <= request.session_timeout_ms
            <= config.group_max_session_timeout_ms
        ):
            return step.result(refuse(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        group = state.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            try:
                reply = consumer_classic.join(state, group, request, context, step)
            except KafkaError as problem:
                return Step(now).result(refuse(problem.code))
            return step.result(reply)
        is_new = not isinstance(group, ClassicGroup)
        if is_new and request.member_id != UNKNOWN_MEMBER_ID:
            return step.result(refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        if isinstance(group, ConsumerGroup):
            step.records.extend(group_tombstones(group))
        if not isinstance(group, ClassicGroup):
            group = ClassicGroup(request.group_id, state_timestamp=now)
            step.records.append(group_record(group))
        join = ClassicJoin(config, group, request, context, step, next(state.tokens))
        answer = join.handle(state.new_id)
        if is_new:
            if (
                not group.members
                and not group.pending_members
                and isinstance(answer, JoinGroupResponse)
            ):
                return Step(now).result(answer)
            if not step.fits():
                return Step(now).result(refuse(step.refusal))
            state.groups[request.group_id] = group
        return step.result(answer)

    def handle_sync_group(
        self, request: SyncGroupRequest, context: RequestContext, now: int
    ) -> Result[SyncGroupResponse]:
        """SyncGroup, versions 0 to 5."""
        step = self._step(now)
        if not request.group_id:
            return step.result(SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        if context.version >= PROTOCOL_IN_SYNC_FROM and (
            request.protocol_type is None or request.protocol_name is None
        ):
            return step.result(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        group = self._state.groups.get(request.group_id)
        reply: SyncGroupResponse | Deferred
        if group is None:
            reply = SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        elif isinstance(group, ClassicGroup):
            reply = classic_requests.sync(
                self._state.config, group, request, step, next(self._state.tokens)
            )
        else:
            try:
                reply = consumer_classic.sync(self._state, group, request, step)
            except KafkaError as problem:
                reply = SyncGroupResponse(error_code=problem.code)
        return step.result(reply)

    def handle_heartbeat(
        self, request: HeartbeatRequest, context: RequestContext, now: int
    ) -> Result[HeartbeatResponse]:
        """Heartbeat, versions 0 to 4."""
        step = self._step(now)
        group = self._state.groups.get(request.group_id)
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif group is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        elif isinstance(group, ClassicGroup):
            error = classic_requests.heartbeat(group, request, step)
        else:
            try:
                error = consumer_classic.heartbeat(self._state, group, request, step)
            except KafkaError as problem:
                error = problem.code
        return step.result(HeartbeatResponse(error_code=error))

    def handle_leave_group(
        self, request: LeaveGroupRequest, context: RequestContext, now: int
    ) -> Result[LeaveGroupResponse]:
        """LeaveGroup, versions 0 to 5."""
        step = self._step(now)
        if not request.group_id:
            return step.result(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        leaving = request.members
        if context.version < BATCHED_LEAVE_FROM:
            leaving = [MemberIdentity(member_id=request.member_id)]
        group = self._state.groups.get(request.group_id)
        if group is None:
            results = [
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=ErrorCode.UNKNOWN_MEMBER_ID,
                )
                for identity in leaving
            ]
        elif isinstance(group, ClassicGroup):
            results = classic_requests.leave(self._state.config, group, leaving, step)
        else:
            try:
                results = consumer_classic.leave(self._state, group, leaving, step)
            except KafkaError as problem:
                return Step(now).result(LeaveGroupResponse(error_code=problem.code))
        if context.version < BATCHED_LEAVE_FROM:
            return step.result(LeaveGroupResponse(error_code=results[0].error_code))
        return step.result(LeaveGroupResponse(members=results))

    def handle_consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: int
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat, versions 0 and 1."""
        step = self._step(now)
        try:
            reply = consumer_heartbeat.heartbeat(self._state, request, context, step)
        except KafkaError as problem:
            return Step(now).result(
                ConsumerGroupHeartbeatResponse(
                    error_code=problem.code, error_message=problem.message
                )
            )
        return step.result(reply)

    def handle_offset_commit(
        self, request: OffsetCommitRequest, context: RequestContext, now: int
    ) -> Result[OffsetCommitResponse]:
        """OffsetCommit, versions 2 to 10."""
        step = Step(now, self._largest_batch)
        return step.result(commit(self._state, request, context, step))

    def handle_txn_offset_commit(
        self, request: TxnOffsetCommitRequest, context: RequestContext, now: int
    ) -> Result[TxnOffsetCommitResponse]:
        """TxnOffsetCommit, versions 0 to 5.

        Only the replay of its records changes anything, so where the log refuses the producer,
        the Result can be thrown away, and the shard goes on.
        """
        step = self._step(now)
        if not request.group_id:
            return step.result(_refuse_all(request, ErrorCode.INVALID_GROUP_ID))
        result = step.result(commit_in_transaction(self._state, request, context, step))
        if result.records:
            result.producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        return result

    def handle_offset_fetch(
        self,
        request: OffsetFetchRequestGroup,
        context: RequestContext,
        now: int,
        *,
        require_stable: bool = False,
    ) -> Result[OffsetFetchResponseGroup]:
        """One group of an OffsetFetch; `offset_fetch.groups_of` and `reply_of` do the rest."""
        reply = fetch(self._state, request, context.version, require_stable=require_stable)
        return Step(now).result(reply)

    def handle_offset_delete(
        self, request: OffsetDeleteRequest, context: RequestContext, now: int
    ) -> Result[OffsetDeleteResponse]:
        """OffsetDelete, version 0."""
        step = self._step(now)
        step.is_atomic = False
        if not request.group_id:
            return step.result(OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        try:
            reply = delete_offsets(self._state, request, step)
        except KafkaError as problem:
            return Step(now).result(OffsetDeleteResponse(error_code=problem.code))
        return step.result(reply)

    def handle_delete_groups(
        self, group_ids: Sequence[str], context: RequestContext, now: int
    ) -> Result[list[DeletableGroupResult]]:
        """The groups of a DeleteGroups that are in this shard."""
        step = self._step(now)
        step.is_atomic = False
        results = []
        for group_id in dict.fromkeys(group_ids):
            error = ErrorCode.NONE
            try:
                delete_group(self._state, group_id, step)
            except KafkaError as problem:
                error = problem.code
            results.append(DeletableGroupResult(group_id=group_id, error_code=error))
        return step.result(results)

    def handle_describe_groups(
        self, group_ids: Sequence[str], context: RequestContext, now: int
    ) -> Result[list[DescribedGroup]]:
        """The groups of a DescribeGroups that are in this shard."""
        return Step(now).result(
            [described(self._state, group_id, context.version) for group_id in group_ids]
        )

    def handle_consumer_group_describe(
        self, group_ids: Sequence[str], context: RequestContext, now: int
    ) -> Result[list[consumer_messages.DescribedGroup]]:
        """The groups of a ConsumerGroupDescribe that are in this shard."""
        return Step(now).result(
            [described_consumer_group(self._state, group_id) for group_id in group_ids]
        )

    def handle_list_groups(
        self, request: ListGroupsRequest, context: RequestContext, now: int
    ) -> Result[list[ListedGroup]]:
        """The groups of this shard that a ListGroups asks for."""
        groups = self._state.groups.values()
        return Step(now).result(listed(groups, request.states_filter, request.types_filter))


def _refuse_all(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
