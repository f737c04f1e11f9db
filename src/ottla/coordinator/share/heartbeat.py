"""ShareGroupHeartbeat, version 1: joining, staying in and leaving a share group.

Rules kept here:
1. Epoch 0 joins, -1 leaves; any other must be the member's own epoch or the one before it, whose
   answer may have been lost. Otherwise: FENCED_MEMBER_EPOCH.
2. Share partitions of subscribed topics that have no state are initialized: noted in a record
   first, then asked of the share coordinator.
3. A member that joins, or subscribes to something else, waits for the share partitions that are
   being initialized for it, so that it can read at once (Kafka answers first: the member then
   reads after its next heartbeat, 5 s later). It waits a short while only; then it gets what there
   is, and the rest with a later heartbeat. While someone waits no target assignment is made.
4. The assignment is sent where it changed, and where the member sent its subscription.
5. A refused request changes nothing.
"""

from dataclasses import replace
from typing import Final
from uuid import UUID

from ottla.coordinator.group_state import GroupState
from ottla.coordinator.group_timers import GroupTimer
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import Deferred, RequestContext
from ottla.coordinator.share.effects import InitializeShareState
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.leave import remove_member
from ottla.coordinator.share.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    Partitions,
    ShareMember,
)
from ottla.coordinator.share.records import current_record, member_record, state_record
from ottla.coordinator.share.targets import (
    topic_ids,
    topic_names,
    updated_epoch,
    updated_targets,
)
from ottla.coordinator.share.timers import ShareTimer
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

LONGEST_MEMBER_ID: Final = 36
LONGEST_WAIT_MS: Final = 3_000
"""How long a member waits for its share partitions. Initialization takes milliseconds, unless the
share coordinator is unavailable."""


def heartbeat(
    state: GroupState,
    request: ShareGroupHeartbeatRequest,
    context: RequestContext,
    draft: ResultDraft,
) -> ShareGroupHeartbeatResponse | Deferred:
    """Handle one heartbeat."""
    check_request(request)
    if request.member_epoch == LEAVING_EPOCH:
        group = state.of_kind(request.group_id, ShareGroup)
        remove_member(state, group, group.known_member(request.member_id), draft)
        return ShareGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
    is_joining = request.member_epoch == JOINING_EPOCH
    group = _group_of(state, request.group_id, is_joining=is_joining)
    _check_size(state, group, request.member_id)
    before = _member_of(group, request)
    after = _with_request(before, request, context)
    members = {**group.members, after.member_id: after}
    if after != before or after.member_id not in group.members:
        draft.records.append(member_record(group.group_id, after))
    changed = after.subscribed_topics != before.subscribed_topics
    initialized = group.partitions.initialized
    epoch = updated_epoch(state, group, members, initialized, draft, changed=changed)
    missing = _initialize(state, group, topic_names(members.values()), epoch, draft)
    wanted = topic_ids(after, state.topics)
    unready = {*missing, *_under_way(state, group, draft.now)} & wanted
    waits = (is_joining or changed) and bool(unready)
    moved = after
    if not waits:
        target_epoch, targets = updated_targets(state, group, members, initialized, epoch, draft)
        moved = after.moved(target_epoch, targets.get(after.member_id, {}), wanted)
        if moved != after:
            draft.records.append(current_record(group.group_id, moved))
    draft.check_fits()
    # Only now: nothing can be refused from here on.
    group = state.find(request.group_id, ShareGroup) or _new_group(state, group)
    group.seen_topics = state.topics.version
    group.initializing_since.update(dict.fromkeys(missing, draft.now))
    timer = GroupTimer(ShareTimer.SESSION, group.group_id, after.member_id)
    timeout_ms = state.config_of(group.group_id).group_share_session_timeout_ms
    draft.set_timer(timer, timeout_ms)
    if waits:
        token = next(state.tokens)
        if not group.waiting:
            draft.set_timer(GroupTimer(ShareTimer.INITIALIZATION, group.group_id), LONGEST_WAIT_MS)
        group.waiting.setdefault(after.member_id, []).append(token)
        return Deferred(token)
    tells_all = request.subscribed_topic_names is not None
    has_news = is_joining or tells_all or moved.assigned != before.assigned
    return _reply(state, group, moved, with_assignment=has_news)


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Refuse what no member may say."""
    if not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if len(request.member_id) > LONGEST_MEMBER_ID:
        raise _invalid("Invalid member id in the request.")
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    if request.member_epoch == JOINING_EPOCH and not request.subscribed_topic_names:
        raise _invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVING_EPOCH:
        raise _invalid("MemberEpoch is invalid.")


def initialization_ended(
    state: GroupState,
    effect: InitializeShareState,
    failed: Partitions,
    draft: ResultDraft,
) -> None:
    """The share coordinator has answered: note it, and answer those who wait."""
    group = state.find(effect.group_id, ShareGroup)
    if group is None:
        return
    asked = {
        topic_id: numbers & group.partitions.initializing.get(topic_id, frozenset())
        for topic_id, numbers in effect.partitions.items()
    }
    done = {
        topic_id: left
        for topic_id, numbers in asked.items()
        if (left := numbers - failed.get(topic_id, frozenset()))
    }
    for topic_id in effect.partitions:
        group.initializing_since.pop(topic_id, None)
    partitions = group.partitions.ended(done, failed)
    if partitions != group.partitions:
        draft.records.append(state_record(group.group_id, partitions))
    answer_waiting(state, group, partitions.initialized, draft)


def answer_waiting(
    state: GroupState, group: ShareGroup, initialized: Partitions, draft: ResultDraft
) -> None:
    """Give everyone who waits the share partitions that are initialized."""
    waiting, group.waiting = group.waiting, {}
    if not waiting:
        return
    draft.cancel_timer(GroupTimer(ShareTimer.INITIALIZATION, group.group_id))
    members = group.members
    written = list(draft.records)
    try:
        epoch = updated_epoch(state, group, members, initialized, draft, changed=False)
        target_epoch, targets = updated_targets(state, group, members, initialized, epoch, draft)
        replies = {}
        for member_id in waiting:
            before = group.known_member(member_id)
            wanted = topic_ids(before, state.topics)
            moved = before.moved(target_epoch, targets.get(member_id, {}), wanted)
            if moved != before:
                draft.records.append(current_record(group.group_id, moved))
            replies[member_id] = _reply(state, group, moved, with_assignment=True)
        draft.check_fits()
    except KafkaError as problem:
        draft.records = written
        refusal = ShareGroupHeartbeatResponse(
            error_code=problem.code, error_message=problem.message
        )
        replies = dict.fromkeys(waiting, refusal)
    for member_id, tokens in waiting.items():
        for token in tokens:
            draft.complete(token, replies[member_id])


def _group_of(state: GroupState, group_id: str, *, is_joining: bool) -> ShareGroup:
    if group_id in state.groups:
        return state.of_kind(group_id, ShareGroup)
    if not is_joining:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
    return ShareGroup(group_id)


def _new_group(state: GroupState, group: ShareGroup) -> ShareGroup:
    """A group that its first records, which are replayed next, would make."""
    state.groups[group.group_id] = group
    return group


def _check_size(state: GroupState, group: ShareGroup, member_id: str) -> None:
    limit = state.config.group_share_max_size
    if len(group.members) >= limit and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {limit} members.",
        )


def _member_of(group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
    epoch = request.member_epoch
    if epoch == JOINING_EPOCH:
        return group.members.get(request.member_id) or ShareMember(request.member_id)
    member = group.known_member(request.member_id)
    if epoch not in (member.member_epoch, member.previous_member_epoch):
        relation = "greater" if epoch > member.member_epoch else "smaller"
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a {relation} member epoch ({epoch}) than the one known by "
            f"the group coordinator ({member.member_epoch}). The member must abandon all its "
            "partitions and rejoin.",
        )
    return member


def _with_request(
    member: ShareMember, request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareMember:
    """The member with what the request says; what it leaves out stays as it was."""
    names = request.subscribed_topic_names
    return replace(
        member,
        rack_id=request.rack_id or member.rack_id,
        subscribed_topics=member.subscribed_topics if names is None else frozenset(names),
        client_id=context.client_id,
        client_host=context.client_host,
    )


def _under_way(state: GroupState, group: ShareGroup, now: int) -> frozenset[UUID]:
    """The topics that this coordinator is initializing, and has not waited for too long."""
    patience = state.config.group_share_initialize_retry_interval_ms
    return frozenset(
        topic_id
        for topic_id in group.partitions.initializing
        if (since := group.initializing_since.get(topic_id)) is not None
        and since <= now < since + patience
    )


def _initialize(
    state: GroupState,
    group: ShareGroup,
    names: frozenset[str],
    epoch: int,
    draft: ResultDraft,
) -> dict[UUID, frozenset[int]]:
    """Begin to initialize what has no state yet; returns it."""
    missing = group.partitions.missing(names, state.topics, _under_way(state, group, draft.now))
    if missing:
        known = {
            topic_id: topic.name
            for topic_id in missing
            if (topic := state.topics.by_id(topic_id)) is not None
        }
        draft.records.append(state_record(group.group_id, group.partitions.begun(missing, known)))
        draft.effects.append(InitializeShareState(group.group_id, epoch, missing))
    return missing


def _reply(
    state: GroupState, group: ShareGroup, member: ShareMember, *, with_assignment: bool
) -> ShareGroupHeartbeatResponse:
    config = state.config_of(group.group_id)
    reply = ShareGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=config.group_share_heartbeat_interval_ms,
    )
    if with_assignment:
        reply.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
                for topic_id, numbers in member.assigned.items()
            ]
        )
    return reply


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
