"""JoinGroup, versions 0 to 9, to a classic group.

Rules kept here:
1. A dynamic member without an id gets one; from version 4 on it must join again with it
   (MEMBER_ID_REQUIRED, KIP-394), so that a client that retries leaves no dead members behind.
2. A static member (KIP-345) without a member id takes the place of the one with its instance id,
   which is fenced. In a stable group whose protocol stays the same this costs no rebalance; from
   version 9 on a leader gets skip_assignment (KIP-814).
3. A member that joins again as it was gets the present generation's answer; the leader, or a
   member that changed, starts a rebalance.
4. A refused request changes nothing, except that a full group (`group.max.size`) drops a member
   that is not yet back in a rebalance.
"""

from collections.abc import Callable

from ottla.coordinator.classic.group import (
    COMPLETING_REBALANCE,
    NO_ERROR,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from ottla.coordinator.classic.member import ClassicMember, Protocols
from ottla.coordinator.classic.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    answer_join,
    answer_sync,
    complete_join_if_all_joined,
    joined,
    rebalance,
    remove_member,
    start_rebalance,
)
from ottla.coordinator.classic.timers import session_timer
from ottla.coordinator.group import Group
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import Deferred, RequestContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

MEMBER_ID_REQUIRED_FROM = 4
SKIP_ASSIGNMENT_FROM = 9
UNKNOWN_MEMBER_ID = ""
LONGEST_NAME_IN_ID = 1024

Reply = JoinGroupResponse | Deferred


def refuse(error: ErrorCode, member_id: str = UNKNOWN_MEMBER_ID) -> JoinGroupResponse:
    """A reply that says why not."""
    return JoinGroupResponse(error_code=error, member_id=member_id)


def join_group(
    state: GroupState,
    group: ClassicGroup,
    request: JoinGroupRequest,
    context: RequestContext,
    draft: ResultDraft,
) -> Reply:
    """Join a group that exists."""
    join = ClassicJoin(state.config, group, request, context, draft, next(state.tokens))
    return join.handle(state.new_id)


def join_new_group(
    state: GroupState,
    request: JoinGroupRequest,
    context: RequestContext,
    draft: ResultDraft,
    replaced: Group | None = None,
) -> Reply:
    """Join a group that this request makes; it may take the place of an empty one."""
    if request.member_id != UNKNOWN_MEMBER_ID:
        return refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
    if replaced is not None:
        draft.records.extend(replaced.tombstones())
    group = ClassicGroup(request.group_id, state_timestamp=draft.now)
    draft.records.append(group.record())
    answer = join_group(state, group, request, context, draft)
    if not group.members and not group.pending_members:
        draft.discard()
        return answer
    if not draft.fits():
        raise KafkaError(draft.refusal)
    state.groups[request.group_id] = group
    return answer


class ClassicJoin:
    """One JoinGroup request to one group."""

    def __init__(
        self,
        config: GroupConfig,
        group: ClassicGroup,
        request: JoinGroupRequest,
        context: RequestContext,
        draft: ResultDraft,
        token: int,
    ) -> None:
        self._config = config
        self._group = group
        self._request = request
        self._context = context
        self._draft = draft
        self._token = token
        self._protocols: Protocols = tuple((part.name, part.metadata) for part in request.protocols)
        # Version 0 has no rebalance timeout.
        self._rebalance_timeout_ms = (
            request.session_timeout_ms
            if request.rebalance_timeout_ms == -1
            else request.rebalance_timeout_ms
        )

    def handle(self, new_id: Callable[[], str]) -> Reply:
        """Answer or park the request; `new_id` makes a unique text, for a member without an id."""
        group, request = self._group, self._request
        if not self._has_room():
            if request.member_id in group.members or request.member_id in group.pending_members:
                remove_member(group, request.member_id, self._draft)
                complete_join_if_all_joined(group, self._draft)
            return refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not group.supports(request.protocol_type, [name for name, _ in self._protocols]):
            return refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        if request.member_id != UNKNOWN_MEMBER_ID:
            return self._known()
        if request.group_instance_id is not None:
            member_id = _member_id(request.group_instance_id, new_id())
            if request.group_instance_id in group.static_members:
                return self._replace(request.group_instance_id, member_id)
            return self._add(member_id)
        member_id = _member_id(self._context.client_id, new_id())
        if self._context.version < MEMBER_ID_REQUIRED_FROM:
            return self._add(member_id)
        group.pending_members.add(member_id)
        timer = session_timer(group.group_id, member_id)
        self._draft.set_timer(timer, request.session_timeout_ms)
        return refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _has_room(self) -> bool:
        group, limit = self._group, self._config.group_max_size
        if group.is_empty:
            return True
        if group.state is PREPARING_REBALANCE:
            # Those who are back count, not the members: where the limit was lowered, the last to
            # come back do not get in.
            return (
                self._request.member_id in group.awaiting_join or len(group.awaiting_join) < limit
            )
        return self._request.member_id in group.members or len(group.members) < limit

    def _known(self) -> Reply:
        group, request = self._group, self._request
        member_id, instance_id = request.member_id, request.group_instance_id
        if member_id in group.pending_members:
            if instance_id is not None:
                # The id was given to a dynamic member. Kafka has no word for this either.
                return refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            return self._add(member_id)
        error = group.membership_error(member_id, instance_id)
        if error is not NO_ERROR:
            return refuse(error, member_id)
        member = group.members[member_id]
        if group.state is PREPARING_REBALANCE:
            return self._update(member)
        is_same = member.protocols == self._protocols
        if group.state is STABLE and member_id == group.leader:
            # A leader may have reasons that are not in its metadata, such as new partitions.
            is_same = False
        return joined(group, member_id) if is_same else self._update(member)

    def _add(self, member_id: str) -> Reply:
        group, request = self._group, self._request
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            self._context.client_id,
            self._context.client_host,
            self._rebalance_timeout_ms,
            request.session_timeout_ms,
            self._protocols,
            is_new=True,
        )
        if group.in_first_rebalance:
            group.new_member_added = True
        group.add(member, request.protocol_type)
        group.awaiting_join[member_id] = self._token
        group.expect_heartbeat(member, self._draft, NEW_MEMBER_JOIN_TIMEOUT_MS)
        rebalance(self._config, group, self._draft)
        return Deferred(self._token)

    def _update(self, member: ClassicMember) -> Reply:
        self._renew(member)
        rebalance(self._config, self._group, self._draft)
        return Deferred(self._token)

    def _renew(self, member: ClassicMember) -> None:
        """Note what the member says now, and park its join."""
        self._group.update(member, self._protocols)
        member.rebalance_timeout_ms = self._rebalance_timeout_ms
        member.session_timeout_ms = self._request.session_timeout_ms
        if member.member_id in self._group.awaiting_join:
            # A second join takes the place of the first, whose client has most likely gone.
            again = refuse(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            answer_join(self._group, member.member_id, self._draft, again)
        self._group.awaiting_join[member.member_id] = self._token

    def _replace(self, instance_id: str, new_id: str) -> Reply:
        group, draft = self._group, self._draft
        old_id = group.static_members[instance_id]
        old_leader = group.leader
        if group.state is STABLE and not self._fits_with(old_id, new_id):
            return refuse(draft.refusal)
        fenced = ErrorCode.FENCED_INSTANCE_ID
        answer_join(group, old_id, draft, refuse(fenced, old_id))
        answer_sync(group, old_id, draft, fenced)
        draft.cancel_timer(session_timer(group.group_id, old_id))
        member = group.replace_static(instance_id, new_id)
        group.expect_heartbeat(member, draft)
        self._renew(member)
        if group.state is STABLE:
            if group.select_protocol() == group.protocol_name:
                return self._rejoin_stable(member, old_leader)
            rebalance(self._config, group, draft)
        elif group.state is COMPLETING_REBALANCE:
            # The leader may be dividing the partitions among members of which one has the old id.
            start_rebalance(self._config, group, draft)
        else:
            complete_join_if_all_joined(group, draft)
        return Deferred(self._token)

    def _fits_with(self, old_id: str, new_id: str) -> bool:
        """Whether the group can be written with this member in the place of another."""
        value = self._group.to_value()
        value.leader = new_id if value.leader == old_id else value.leader
        for member in value.members:
            if member.member_id == old_id:
                member.member_id = new_id
                member.subscription = dict(self._protocols).get(value.protocol or "", b"")
        return self._draft.fits(self._group.record(value))

    def _rejoin_stable(self, member: ClassicMember, old_leader: str | None) -> JoinGroupResponse:
        group = self._group
        self._draft.records.append(group.record())
        del group.awaiting_join[member.member_id]
        reply = joined(group, member.member_id)
        if self._context.version >= SKIP_ASSIGNMENT_FROM:
            reply.skip_assignment = member.member_id == group.leader
        else:
            # Such a client cannot be asked to skip: it must not take itself for the leader.
            reply.leader = old_leader or ""
            reply.members = []
        return reply


def _member_id(name: str, new_id: str) -> str:
    # A name may be as long as a string can be on the wire; the id must fit into one too.
    return f"{name[:LONGEST_NAME_IN_ID]}-{new_id}"
