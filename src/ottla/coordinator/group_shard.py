"""The group coordinator of one partition of `__consumer_offsets`: its whole public face.

Each handler takes a request (or the part of it that concerns this shard), says what to reply, and
what to write, in a Result. What it decides by is in the modules that it calls.

Rules kept here, beside those of `shard.py`:
1. A request that is refused (KafkaError) changes nothing; what was gathered for it is thrown away.
   A nameless group is refused here (INVALID_GROUP_ID), except for commits and fetches of offsets
   and deletions of groups, as in Kafka.
2. Offsets expire in slices, so that a shard with many groups does not hold up the others.
3. A group whose records do not fit into a batch is refused alone (UNKNOWN_SERVER_ERROR, as in
   Kafka; COORDINATOR_NOT_AVAILABLE where nothing fits at the moment). A timer that cannot be
   written is tried again after a while.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from ottla.coordinator.batch_sizes import UNLIMITED
from ottla.coordinator.classic.describe import described
from ottla.coordinator.classic.join import UNKNOWN_MEMBER_ID, join_new_group, refuse
from ottla.coordinator.consumer import heartbeat as consumer_heartbeat
from ottla.coordinator.consumer.describe import described as described_consumer_group
from ottla.coordinator.group import Group
from ottla.coordinator.group_config import ConfigOf, GroupConfig
from ottla.coordinator.group_kind import unknown_members
from ottla.coordinator.group_kinds import kind_of
from ottla.coordinator.group_listing import listed
from ottla.coordinator.group_state import GroupState, check_group_id
from ottla.coordinator.group_timers import GroupTimer, ShardTimer
from ottla.coordinator.offsets.commit import commit, commit_in_transaction, refuse_txn_commit
from ottla.coordinator.offsets.fetch import fetch
from ottla.coordinator.offsets.removal import (
    delete_group,
    delete_offsets,
    delete_offsets_of_topics,
    expire_group,
)
from ottla.coordinator.offsets.store import NO_PRODUCER_ID, OffsetAndMetadata, PartitionKey
from ottla.coordinator.record_kinds import read_record, replay
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import (
    CoordinatorRecord,
    ProducerIdentity,
    RequestContext,
    Result,
    UnknownRecordError,
)
from ottla.coordinator.share import heartbeat as share_heartbeat
from ottla.coordinator.share import offsets as share_offsets
from ottla.coordinator.share.describe import described as described_share_group
from ottla.coordinator.share.effects import InitializeShareState
from ottla.coordinator.share.member import Partitions
from ottla.coordinator.streams import heartbeat as streams_heartbeat
from ottla.coordinator.streams.describe import described as described_streams_group
from ottla.coordinator.topics import TopicMatcher, TopicSummary, TopicView
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import consumer_group_describe as consumer_messages
from ottla.wire.messages import share_group_describe as share_messages
from ottla.wire.messages import streams_group_describe as streams_messages
from ottla.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from ottla.wire.messages.describe_groups import DescribedGroup
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

R = TypeVar("R")

BATCHED_LEAVE_FROM = 3
PROTOCOL_NAMED_FROM = 5
"""From this version of SyncGroup on a member must name the protocol it uses (KIP-559)."""
GROUPS_IN_A_SLICE = 200
OFFSETS_IN_A_SLICE = 1_000
RETRY_MS = 500
"""Kafka's, for a timer whose records could not be written."""

_EXPIRY = GroupTimer(ShardTimer.EXPIRE_OFFSETS)


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
        self.skipped: Counter[str] = Counter()
        """What `replay` skipped because nobody here knows it, with the number of records."""
        self._to_expire: list[str] = []

    def _draft(self, now: int) -> ResultDraft:
        return ResultDraft(now, self._largest_batch)

    def replay(self, record: CoordinatorRecord, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record, with the producer id of its batch where that is transactional."""
        try:
            parsed = read_record(record)
        except UnknownRecordError as unknown:
            self.skipped[str(unknown)] += 1
            return
        replay(self._state, parsed, producer_id)

    def positions(self) -> list[tuple[str, int, Mapping[PartitionKey, OffsetAndMetadata]]]:
        """Each group's id, the number of its members, and its committed offsets; for metrics."""
        offsets = self._state.offsets
        return [
            (group_id, group.member_count, offsets.of_group(group_id))
            for group_id, group in self._state.groups.items()
        ]

    def complete_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply a transaction marker, right after it was appended or when it is loaded."""
        self._state.offsets.end_transaction(producer_id, commit=commit)

    def loaded(self, now: int) -> Result[None]:
        """Start the sessions of all members."""
        self._state.is_loading = False
        draft = self._draft(now)
        for group in self._state.groups.values():
            kind_of(group).start_timers(self._state, group, draft)
        config = self._state.config
        draft.set_timer(_EXPIRY, config.offsets_retention_check_interval_ms)
        return draft.result(None)

    def expire(self, key: Hashable, now: int) -> Result[None]:
        """A timer is due."""
        draft = self._draft(now)
        if not isinstance(key, GroupTimer):
            raise TypeError(f"{key!r} is not a timer of groups")
        if key == _EXPIRY:
            self._expire_offsets(draft)
            return draft.result(None)
        group = self._state.groups.get(key.group_id)
        if group is not None:
            try:
                kind_of(group).expire(self._state, group, key, draft)
            except KafkaError:
                draft = self._draft(now)
                draft.set_timer(key, RETRY_MS)
        return draft.result(None)

    def _expire_offsets(self, draft: ResultDraft) -> None:
        draft.is_atomic = False
        if not self._to_expire:
            self._to_expire = list(self._state.groups)
        for _ in range(min(GROUPS_IN_A_SLICE, len(self._to_expire))):
            room = OFFSETS_IN_A_SLICE - len(draft.records)
            group_id = self._to_expire[-1]
            if group_id in self._state.groups and not expire_group(
                self._state, group_id, draft, room
            ):
                break  # it has more, and comes first in the next slice
            self._to_expire.pop()
        interval = self._state.config.offsets_retention_check_interval_ms
        draft.set_timer(_EXPIRY, 0 if self._to_expire else interval)

    def topics_deleted(self, topics: Iterable[TopicSummary], now: int) -> Result[None]:
        """Delete the offsets of topics that are gone.

        Groups that use the topics see it, as every other change, by the version of the view.
        """
        draft = self._draft(now)
        draft.is_atomic = False
        gone = list(topics)
        delete_offsets_of_topics(self._state, gone, draft)
        share_offsets.topics_deleted(self._state, gone, draft)
        return draft.result(None)

    def handle_join_group(
        self, request: JoinGroupRequest, context: RequestContext, now: int
    ) -> Result[JoinGroupResponse]:
        """JoinGroup, versions 0 to 9."""
        draft = ResultDraft(now, self._largest_batch)
        state, config = self._state, self._state.config
        try:
            check_group_id(request.group_id)
            if not (
                config.group_min_session_timeout_ms
                <= request.session_timeout_ms
                <= config.group_max_session_timeout_ms
            ):
                return draft.result(refuse(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
            group = state.groups.get(request.group_id)
            if group is None:
                return draft.result(join_new_group(state, request, context, draft))
            return draft.result(kind_of(group).join(state, group, request, context, draft))
        except KafkaError as problem:
            # As in Kafka, of these only the refusal of a nameless group has the member's id.
            member_id = UNKNOWN_MEMBER_ID if request.group_id else request.member_id
            return ResultDraft(now).result(refuse(problem.code, member_id))

    def handle_sync_group(
        self, request: SyncGroupRequest, context: RequestContext, now: int
    ) -> Result[SyncGroupResponse]:
        """SyncGroup, versions 0 to 5."""
        draft = ResultDraft(now, self._largest_batch)
        try:
            if context.version >= PROTOCOL_NAMED_FROM and (
                request.protocol_type is None or request.protocol_name is None
            ):
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            group = self._group_of_member(request.group_id)
            return draft.result(kind_of(group).sync(self._state, group, request, draft))
        except KafkaError as problem:
            return ResultDraft(now).result(SyncGroupResponse(error_code=problem.code))

    def handle_heartbeat(
        self, request: HeartbeatRequest, context: RequestContext, now: int
    ) -> Result[HeartbeatResponse]:
        """Heartbeat, versions 0 to 4."""
        draft = ResultDraft(now, self._largest_batch)
        try:
            group = self._group_of_member(request.group_id)
            error = kind_of(group).heartbeat(self._state, group, request, draft)
            return draft.result(HeartbeatResponse(error_code=error))
        except KafkaError as problem:
            return ResultDraft(now).result(HeartbeatResponse(error_code=problem.code))

    def _group_of_member(self, group_id: str) -> Group:
        """The group of a member's request. Where there is none, nobody can be its member."""
        check_group_id(group_id)
        group = self._state.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def handle_leave_group(
        self, request: LeaveGroupRequest, context: RequestContext, now: int
    ) -> Result[LeaveGroupResponse]:
        """LeaveGroup, versions 0 to 5."""
        draft = self._draft(now)
        leaving = request.members
        if context.version < BATCHED_LEAVE_FROM:
            leaving = [MemberIdentity(member_id=request.member_id)]
        try:
            check_group_id(request.group_id)
            group = self._state.groups.get(request.group_id)
            if group is None:
                results = unknown_members(leaving)
            else:
                results = kind_of(group).leave(self._state, group, leaving, draft)
        except KafkaError as problem:
            return ResultDraft(now).result(LeaveGroupResponse(error_code=problem.code))
        if context.version < BATCHED_LEAVE_FROM:
            return draft.result(LeaveGroupResponse(error_code=results[0].error_code))
        return draft.result(LeaveGroupResponse(members=results))

    def handle_consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: int
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat, versions 0 and 1."""
        draft = self._draft(now)
        try:
            reply = consumer_heartbeat.heartbeat(self._state, request, context, draft)
        except KafkaError as problem:
            return ResultDraft(now).result(
                ConsumerGroupHeartbeatResponse(
                    error_code=problem.code, error_message=problem.message
                )
            )
        return draft.result(reply)

    def handle_share_group_heartbeat(
        self, request: ShareGroupHeartbeatRequest, context: RequestContext, now: int
    ) -> Result[ShareGroupHeartbeatResponse]:
        """ShareGroupHeartbeat, version 1."""
        draft = self._draft(now)
        try:
            return draft.result(share_heartbeat.heartbeat(self._state, request, context, draft))
        except KafkaError as problem:
            return ResultDraft(now).result(
                ShareGroupHeartbeatResponse(error_code=problem.code, error_message=problem.message)
            )

    def handle_streams_group_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, context: RequestContext, now: int
    ) -> Result[streams_heartbeat.HeartbeatAnswer]:
        """StreamsGroupHeartbeat, version 0."""
        draft = self._draft(now)
        try:
            return draft.result(streams_heartbeat.heartbeat(self._state, request, context, draft))
        except KafkaError as problem:
            reply = StreamsGroupHeartbeatResponse(
                error_code=problem.code, error_message=problem.message
            )
            return ResultDraft(now).result(streams_heartbeat.HeartbeatAnswer(reply))

    def handle_streams_group_describe(
        self, group_ids: Sequence[str], context: RequestContext, now: int
    ) -> Result[list[streams_messages.DescribedGroup]]:
        """The groups of a StreamsGroupDescribe that are in this shard."""
        return ResultDraft(now).result(
            [described_streams_group(self._state, group_id) for group_id in group_ids]
        )

    def share_state_initialized(
        self, effect: InitializeShareState, failed: Partitions, now: int
    ) -> Result[None]:
        """The share coordinator has initialized share partitions, except those that failed."""
        draft = self._draft(now)
        share_heartbeat.initialization_ended(self._state, effect, failed, draft)
        return draft.result(None)

    def handle_share_group_describe(
        self, group_ids: Sequence[str], context: RequestContext, now: int
    ) -> Result[list[share_messages.DescribedGroup]]:
        """The groups of a ShareGroupDescribe that are in this shard."""
        return ResultDraft(now).result(
            [described_share_group(self._state, group_id) for group_id in group_ids]
        )

    def handle_share_partitions(
        self, group_id: str, context: RequestContext, now: int
    ) -> Result[dict[UUID, frozenset[int]]]:
        """The share partitions of a group that have state."""
        return ResultDraft(now).result(share_offsets.initialized_partitions(self._state, group_id))

    def begin_share_alteration(
        self, request: AlterShareGroupOffsetsRequest, now: int
    ) -> Result[share_offsets.OffsetsAlteration]:
        """AlterShareGroupOffsets, its first half; raises KafkaError."""
        draft = self._draft(now)
        return draft.result(share_offsets.begin_alteration(self._state, request, draft))

    def begin_share_deletion(
        self, request: DeleteShareGroupOffsetsRequest, now: int
    ) -> Result[share_offsets.OffsetsDeletion]:
        """DeleteShareGroupOffsets, its first half; raises KafkaError."""
        draft = self._draft(now)
        return draft.result(share_offsets.begin_deletion(self._state, request, draft))

    def begin_share_group_deletion(
        self, group_id: str, now: int
    ) -> Result[share_offsets.OffsetsDeletion | None]:
        """The first half of deleting a share group; None for groups of other kinds."""
        draft = self._draft(now)
        return draft.result(share_offsets.begin_group_deletion(self._state, group_id, draft))

    def end_share_deletion(self, group_id: str, topics: Sequence[UUID], now: int) -> Result[None]:
        """The share coordinator has deleted the state of topics."""
        draft = self._draft(now)
        share_offsets.end_deletion(self._state, group_id, topics, draft)
        return draft.result(None)

    def handle_offset_commit(
        self, request: OffsetCommitRequest, context: RequestContext, now: int
    ) -> Result[OffsetCommitResponse]:
        """OffsetCommit, versions 2 to 10."""
        draft = ResultDraft(now, self._largest_batch)
        return draft.result(commit(self._state, request, context, draft))

    def handle_txn_offset_commit(
        self, request: TxnOffsetCommitRequest, context: RequestContext, now: int
    ) -> Result[TxnOffsetCommitResponse]:
        """TxnOffsetCommit, versions 0 to 5.

        Only the replay of its records changes anything, so where the log refuses the producer,
        the Result can be thrown away, and the shard continues.
        """
        draft = self._draft(now)
        try:
            check_group_id(request.group_id)
        except KafkaError as problem:
            return draft.result(refuse_txn_commit(request, problem.code))
        result = draft.result(commit_in_transaction(self._state, request, context, draft))
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
        """One group of an OffsetFetch; `offsets.fetch` has the way from and to a whole request."""
        reply = fetch(self._state, request, context.version, require_stable=require_stable)
        return ResultDraft(now).result(reply)

    def handle_offset_delete(
        self, request: OffsetDeleteRequest, context: RequestContext, now: int
    ) -> Result[OffsetDeleteResponse]:
        """OffsetDelete, version 0."""
        draft = self._draft(now)
        draft.is_atomic = False
        try:
            check_group_id(request.group_id)
            return draft.result(delete_offsets(self._state, request, draft))
        except KafkaError as problem:
            return ResultDraft(now).result(OffsetDeleteResponse(error_code=problem.code))

    def handle_delete_groups(
        self, group_ids: Sequence[str], context: RequestContext, now: int
    ) -> Result[list[DeletableGroupResult]]:
        """The groups of a DeleteGroups that are in this shard."""
        draft = self._draft(now)
        draft.is_atomic = False
        results = []
        for group_id in dict.fromkeys(group_ids):
            error = ErrorCode.NONE
            try:
                delete_group(self._state, group_id, draft)
            except KafkaError as problem:
                error = problem.code
            results.append(DeletableGroupResult(group_id=group_id, error_code=error))
        return draft.result(results)

    def handle_describe_groups(
        self, group_ids: Sequence[str], context: RequestContext, now: int
    ) -> Result[list[DescribedGroup]]:
        """The groups of a DescribeGroups that are in this shard."""
        return ResultDraft(now).result(
            [described(self._state, group_id, context.version) for group_id in group_ids]
        )

    def handle_consumer_group_describe(
        self, group_ids: Sequence[str], context: RequestContext, now: int
    ) -> Result[list[consumer_messages.DescribedGroup]]:
        """The groups of a ConsumerGroupDescribe that are in this shard."""
        return ResultDraft(now).result(
            [described_consumer_group(self._state, group_id) for group_id in group_ids]
        )

    def handle_list_groups(
        self, request: ListGroupsRequest, context: RequestContext, now: int
    ) -> Result[list[ListedGroup]]:
        """The groups of this shard that a ListGroups asks for."""
        groups = self._state.groups.values()
        return ResultDraft(now).result(listed(groups, request.states_filter, request.types_filter))
