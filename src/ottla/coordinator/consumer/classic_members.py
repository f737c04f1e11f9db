"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic members in a consumer group.

While a group moves to the new protocol it has members of both. To a classic member the group looks
as always: the generation is its member epoch, a rebalance is the time between a heartbeat that
says REBALANCE_IN_PROGRESS and its sync. It is never the leader.

Rules kept here:
1. A join is answered at once: it says what the member subscribes to and owns, and moves it towards
   its target. Where a static member comes back that was the last one with the new protocol, the
   group becomes a classic one, and the join waits for its rebalance.
2. A member that must join again has its rebalance timeout to do so, and as long again to sync.
3. The assignment is what the member owns by the group's records, in the version of the consumer
   protocol that it used itself.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from ottla.coordinator.classic.join import MEMBER_ID_REQUIRED_FROM, UNKNOWN_MEMBER_ID, refuse
from ottla.coordinator.consumer.downgrade import downgraded
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.heartbeat import check_size
from ottla.coordinator.consumer.leave import remove_members, take_over, turn_back
from ottla.coordinator.consumer.member import ConsumerMember, MemberState
from ottla.coordinator.consumer.member_update import MemberUpdate, may_assign
from ottla.coordinator.consumer.protocol import (
    PROTOCOL_TYPE,
    read_subscription,
    read_version,
    write_assignment,
)
from ottla.coordinator.consumer.schemas import ClassicMemberMetadata, ClassicProtocol
from ottla.coordinator.consumer.subscriptions import metadata_hash, topic_names
from ottla.coordinator.consumer.timers import ConsumerTimer
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.group_timers import GroupTimer
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import Deferred, RequestContext
from ottla.coordinator.topics import TopicView
from ottla.wire.codec import DecodeError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import TopicPartitions
from ottla.wire.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def join(
    state: GroupState,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    context: RequestContext,
    draft: ResultDraft,
) -> JoinGroupResponse | Deferred:
    """Handle a join."""
    instance_id = request.group_instance_id
    is_unknown = request.member_id == UNKNOWN_MEMBER_ID
    member_id = state.new_id() if is_unknown else request.member_id
    check_size(state.config, group, member_id)
    if request.protocol_type != PROTOCOL_TYPE or not _supports(group, request):
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Member {member_id}'s protocols are not supported.",
        )
    if is_unknown and instance_id is None and context.version >= MEMBER_ID_REQUIRED_FROM:
        return refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    subscription = _subscription(request)
    before = group.members.get(member_id) or ConsumerMember(member_id)
    if instance_id is not None:
        existing = group.static_member(instance_id)
        if not is_unknown:
            before = group.known_static_member(instance_id, member_id)
        elif existing is not None:
            before = take_over(group, existing, member_id, draft)
    after = replace(
        before,
        instance_id=instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=_rebalance_timeout(request),
        subscribed_topics=frozenset(subscription.topics),
        subscribed_regex="",
        client_id=context.client_id,
        client_host=context.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=protocol.name, metadata=protocol.metadata)
                for protocol in request.protocols
            ],
        ),
    )
    replaced = group.static_member(instance_id) if is_unknown else None
    if replaced is not None:
        leaving = {replaced.member_id}
        classic = downgraded(state.config, group, leaving, state.topics, draft.now, joining=after)
        if classic is not None:
            token = classic.awaiting_join[member_id] = next(state.tokens)
            # What was gathered is of a consumer group, and this is the end of it.
            if turn_back(state, group, classic, draft):
                return Deferred(token)
    owned = _owned(subscription.owned_partitions, state.topics)
    moved = MemberUpdate(state, group, before, after, draft).apply(owned)
    group.awaited_joins.discard(member_id)
    draft.cancel_timer(GroupTimer(ConsumerTimer.JOIN, group.group_id, member_id))
    draft.cancel_timer(GroupTimer(ConsumerTimer.REBALANCE, group.group_id, member_id))
    _expect(group, member_id, ConsumerTimer.SESSION, request.session_timeout_ms, draft)
    _expect(group, member_id, ConsumerTimer.SYNC, after.rebalance_timeout_ms, draft)
    return JoinGroupResponse(
        member_id=member_id,
        generation_id=moved.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
    )


def sync(
    state: GroupState, group: ConsumerGroup, request: SyncGroupRequest, draft: ResultDraft
) -> SyncGroupResponse:
    """Handle a sync."""
    member, classic = _classic_member(
        group, request.member_id, request.group_instance_id, request.generation_id
    )
    protocol = classic.supported_protocols[0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (
        None,
        protocol.name,
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if (
        group.assignment_epoch > member.member_epoch
        and member.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        _expect_join(group, member, draft)
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    try:
        assignment = write_assignment(
            member.assigned, state.topics, read_version(protocol.metadata)
        )
    except DecodeError:
        # The protocol that the classic group had chosen was read; this one may be another.
        raise _malformed() from None
    draft.cancel_timer(GroupTimer(ConsumerTimer.SYNC, group.group_id, member.member_id))
    _expect(group, member.member_id, ConsumerTimer.SESSION, classic.session_timeout_ms, draft)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment,
    )


def heartbeat(
    state: GroupState, group: ConsumerGroup, request: HeartbeatRequest, draft: ResultDraft
) -> ErrorCode:
    """Keep a member's session alive, and tell it when to join again."""
    member, classic = _classic_member(
        group, request.member_id, request.group_instance_id, request.generation_id
    )
    _expect(group, member.member_id, ConsumerTimer.SESSION, classic.session_timeout_ms, draft)
    must_join = (
        # There is a newer target for it,
        member.member_epoch < group.assignment_epoch
        # or it has to say that it gave up partitions,
        or member.state is MemberState.UNREVOKED_PARTITIONS
        # or all that it waited for is free.
        or (
            member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
        )
        # or a target is to be made, and nobody is there who makes one without joining.
        or (_needs_target(state, group, draft.now) and _is_left_alone(group))
    )
    if not must_join:
        return ErrorCode.NONE
    _expect_join(group, member, draft)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _needs_target(state: GroupState, group: ConsumerGroup, now: int) -> bool:
    """True if the last target is not for the members, or not for the topics, that there are."""
    if group.epoch > group.assignment_epoch:
        return may_assign(state.config_of(group.group_id), group, now)
    if group.seen_topics == state.topics.version:
        return False
    names = topic_names(group.members.values(), group.regexes)
    if metadata_hash(names, state.topics) != group.metadata_hash:
        return True
    group.seen_topics = state.topics.version
    return False


def _is_left_alone(group: ConsumerGroup) -> bool:
    """True where all members are classic ones."""
    return all(member.classic is not None for member in group.members.values())


def leave(
    state: GroupState, group: ConsumerGroup, leaving: Iterable[MemberIdentity], draft: ResultDraft
) -> list[MemberResponse]:
    """Let members go, by the classic request; it can name members of both protocols."""
    gone: set[str] = set()
    results = []
    for identity in leaving:
        error = ErrorCode.NONE
        try:
            if identity.group_instance_id is None:
                member = group.known_member(identity.member_id)
            else:
                member = group.known_static_member(
                    identity.group_instance_id, identity.member_id or None
                )
            gone.add(member.member_id)
        except KafkaError as problem:
            error = problem.code
        results.append(
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error,
            )
        )
    remove_members(state, group, gone, draft)
    return results


def _supports(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """True if one of the member's protocols is known to all classic members."""
    known: Counter[str] = Counter()
    classic_members = 0
    for member in group.members.values():
        if member.classic is not None:
            classic_members += 1
            known.update({protocol.name for protocol in member.classic.supported_protocols})
    return any(known[protocol.name] == classic_members for protocol in request.protocols)


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except DecodeError:
        raise _malformed() from None


def _malformed() -> KafkaError:
    # Kafka has no better word for it.
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Malformed embedded consumer protocol.")


def _rebalance_timeout(request: JoinGroupRequest) -> int:
    if request.rebalance_timeout_ms == -1:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms


def _owned(partitions: Iterable[TopicPartition], topics: TopicView) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic.topic_id, partitions=part.partitions)
        for part in partitions
        if (topic := topics.by_name(part.topic)) is not None
    ]


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    if instance_id is None:
        member = group.known_member(member_id)
    else:
        member = group.known_static_member(instance_id, member_id)
    if member.classic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member.member_id} does not use the classic protocol.",
        )
    if generation != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _expect_join(group: ConsumerGroup, member: ConsumerMember, draft: ResultDraft) -> None:
    """Give a member time to join again, counted from when it was first asked to."""
    if member.member_id not in group.awaited_joins:
        group.awaited_joins.add(member.member_id)
        _expect(group, member.member_id, ConsumerTimer.JOIN, member.rebalance_timeout_ms, draft)


def _expect(
    group: ConsumerGroup, member_id: str, kind: ConsumerTimer, timeout_ms: int, draft: ResultDraft
) -> None:
    draft.set_timer(GroupTimer(kind, group.group_id, member_id), timeout_ms)
