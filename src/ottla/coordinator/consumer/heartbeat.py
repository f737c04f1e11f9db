"""ConsumerGroupHeartbeat, versions 0 and 1: joining, staying in and leaving a consumer group.

Rules kept here:
1. Epoch 0 joins, -1 leaves, -2 leaves a static member's place open; any other must be the member's
   own epoch. The one before it passes too if the member claims nothing that it does not own: the
   answer with the new epoch may have been lost. Otherwise: FENCED_MEMBER_EPOCH.
2. The first member of the new protocol turns an empty or classic group into a consumer group.
3. An instance id belongs to one member id until that one has left (UNRELEASED_INSTANCE_ID,
   FENCED_INSTANCE_ID).
4. The assignment is sent where it changed, and where the member sent everything about itself.
5. A refused request changes nothing.
"""

from dataclasses import replace

from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.classic.rebalance import dismiss_all
from ottla.coordinator.consumer.assignors import ASSIGNORS
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.leave import leave_for_now, remove_members, take_over
from ottla.coordinator.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_STATIC_EPOCH,
    ConsumerMember,
    owns_only,
)
from ottla.coordinator.consumer.member_update import MemberUpdate
from ottla.coordinator.consumer.timers import ConsumerTimer
from ottla.coordinator.consumer.upgrade import upgraded
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.group_timers import GroupTimer
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import RequestContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

MEMBER_ID_FROM_CLIENT_FROM = 1
"""From this version on a member brings its own id."""


def heartbeat(
    state: GroupState,
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
    draft: ResultDraft,
) -> ConsumerGroupHeartbeatResponse:
    """Handle one heartbeat."""
    check_request(state.config, request, context.version)
    if request.member_epoch in (LEAVING_EPOCH, LEAVING_STATIC_EPOCH):
        return _leave(state, request, draft)
    is_joining = request.member_epoch == JOINING_EPOCH
    if is_joining:
        group, classic = _group_to_join(state, request.group_id, draft)
    else:
        group, classic = _existing_group(state, request.group_id), None
    check_size(state.config, group, request.member_id)
    member_id = request.member_id or state.new_id()
    if request.instance_id is None:
        before = _dynamic_member(group, member_id, request)
    else:
        before = _static_member(group, member_id, request.instance_id, request, draft)
    after = _with_request(before, request, context)
    moved = MemberUpdate(state, group, before, after, draft, context.sees_topic).apply(
        request.topic_partitions
    )
    if classic is not None:
        dismiss_all(classic, draft)
    config = state.config_of(group.group_id)
    draft.set_timer(
        GroupTimer(ConsumerTimer.SESSION, group.group_id, member_id),
        config.group_consumer_session_timeout_ms,
    )
    reply = ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=moved.member_epoch,
        heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
    )
    tells_all = (
        request.rebalance_timeout_ms != -1
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        and request.topic_partitions is not None
    )
    if is_joining or tells_all or moved.assigned != before.assigned:
        reply.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
                for topic_id, numbers in moved.assigned.items()
            ]
        )
    return reply


def check_request(
    config: GroupConfig, request: ConsumerGroupHeartbeatRequest, version: int
) -> None:
    """Refuse what no member may say."""
    epoch = request.member_epoch
    needs_id = version >= MEMBER_ID_FROM_CLIENT_FROM or epoch > 0 or epoch == LEAVING_EPOCH
    if needs_id and not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    for name, value in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                "(re-)joining."
            )
    elif epoch == LEAVING_STATIC_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    assignors = config.group_consumer_assignors
    if request.server_assignor is not None and (
        request.server_assignor not in assignors or request.server_assignor not in ASSIGNORS
    ):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _group_to_join(
    state: GroupState, group_id: str, draft: ResultDraft
) -> tuple[ConsumerGroup, ClassicGroup | None]:
    """The consumer group, and the classic one that it takes the place of."""
    if group_id not in state.groups:
        return ConsumerGroup(group_id), None
    classic = state.find(group_id, ClassicGroup)
    if classic is None:
        return state.of_kind(group_id, ConsumerGroup), None
    if classic.is_empty:
        group = ConsumerGroup(group_id)
        draft.records.extend(classic.tombstones())
    else:
        group = upgraded(state.config, classic, state.topics)
        draft.records.extend(classic.tombstones())
        draft.records.extend(group.records())
        for member in classic.members.values():
            timer = GroupTimer(ConsumerTimer.SESSION, group_id, member.member_id)
            draft.set_timer(timer, member.session_timeout_ms)
    return group, classic


def _existing_group(state: GroupState, group_id: str) -> ConsumerGroup:
    if group_id not in state.groups:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    return state.of_kind(group_id, ConsumerGroup)


def check_size(config: GroupConfig, group: ConsumerGroup, member_id: str) -> None:
    """Refuse a new member where the group is full."""
    limit = config.group_consumer_max_size
    if len(group.members) >= limit and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {limit} members.",
        )


def _dynamic_member(
    group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest
) -> ConsumerMember:
    if request.member_epoch == JOINING_EPOCH:
        return group.members.get(member_id) or ConsumerMember(member_id)
    member = group.known_member(member_id)
    _check_epoch(member, request)
    return member


def _static_member(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str,
    request: ConsumerGroupHeartbeatRequest,
    draft: ResultDraft,
) -> ConsumerMember:
    if request.member_epoch != JOINING_EPOCH:
        member = group.known_static_member(instance_id, member_id)
        _check_epoch(member, request)
        return member
    existing = group.static_member(instance_id)
    if existing is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if existing.classic is None and existing.member_epoch != LEAVING_STATIC_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {existing.member_id} member.",
        )
    return take_over(group, existing, member_id, draft)


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    epoch = request.member_epoch
    if epoch == member.member_epoch:
        return
    if epoch == member.previous_member_epoch < member.member_epoch and owns_only(
        request.topic_partitions, member.assigned
    ):
        return
    relation = "greater" if epoch > member.member_epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.member_epoch}). The member must abandon all its "
        "partitions and rejoin.",
    )


def _with_request(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerMember:
    """The member with what the request says; what it leaves out stays as it was."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.instance_id or member.instance_id,
        rack_id=request.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        server_assignor=request.server_assignor or member.server_assignor,
        subscribed_topics=member.subscribed_topics if names is None else frozenset(names),
        subscribed_regex=member.subscribed_regex if regex is None else regex,
        client_id=context.client_id,
        client_host=context.client_host,
        classic=None,
    )


def _leave(
    state: GroupState, request: ConsumerGroupHeartbeatRequest, draft: ResultDraft
) -> ConsumerGroupHeartbeatResponse:
    group = state.of_kind(request.group_id, ConsumerGroup)
    if request.instance_id is None:
        member = group.known_member(request.member_id)
    else:
        member = group.known_static_member(request.instance_id, request.member_id)
    if request.member_epoch == LEAVING_STATIC_EPOCH:
        leave_for_now(group, member, draft)
    else:
        remove_members(state, group, [member.member_id], draft)
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id, member_epoch=request.member_epoch
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
