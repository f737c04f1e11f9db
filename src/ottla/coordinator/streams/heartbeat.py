"""StreamsGroupHeartbeat, version 0: joining, staying in and leaving a streams group.

Rules kept here:
1. Epoch 0 joins, -1 leaves; any other must be the member's own epoch, or the one before it if the
   member has nothing that it should not have: the answer with the new epoch may have been lost.
   Otherwise: FENCED_MEMBER_EPOCH.
2. The first member brings the topology. Another topology is refused as long as the group exists; a
   member with an older one stays, and is told by a status.
3. What keeps tasks from being assigned is told to every member by a status; internal topics that
   are missing are for the caller to create.
4. The tasks are sent where they changed, and to a member that joins.
5. A refused request changes nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.consumer.subscriptions import metadata_hash
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.group_timers import GroupTimer
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import RequestContext
from ottla.coordinator.streams.checks import check_epoch, check_request, check_tasks
from ottla.coordinator.streams.configured import (
    ConfiguredTopology,
    InternalTopic,
    StatusCode,
    configure,
)
from ottla.coordinator.streams.endpoints import endpoint_partitions
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.leave import remove_member
from ottla.coordinator.streams.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_STATIC_EPOCH,
    MemberState,
    StreamsMember,
    said,
)
from ottla.coordinator.streams.reconcile import reconciled
from ottla.coordinator.streams.records import (
    current_record,
    epoch_record,
    member_record,
    topology_record,
)
from ottla.coordinator.streams.schemas import NEVER_VALIDATED
from ottla.coordinator.streams.targets import (
    TargetAssignment,
    assignment_configs,
    updated_targets,
)
from ottla.coordinator.streams.tasks import NOTHING, listed
from ottla.coordinator.streams.timers import StreamsTimer
from ottla.coordinator.streams.topology import StreamsTopology, topology_value
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)


class HeartbeatAnswer(NamedTuple):
    """The reply, and the internal topics that have to be created."""

    reply: StreamsGroupHeartbeatResponse
    to_create: Mapping[str, InternalTopic] = {}


def heartbeat(
    state: GroupState,
    request: StreamsGroupHeartbeatRequest,
    context: RequestContext,
    draft: ResultDraft,
) -> HeartbeatAnswer:
    """Handle one heartbeat."""
    check_request(request)
    if request.member_epoch in (LEAVING_EPOCH, LEAVING_STATIC_EPOCH):
        return HeartbeatAnswer(_leave(state, request, draft))
    return _Heartbeat(state, request, context, draft).answer()


def assign_delayed(state: GroupState, group: StreamsGroup, draft: ResultDraft) -> None:
    """The members that have joined a new group until now get their targets."""
    group.is_delayed = False
    if group.is_empty or group.configured is None:
        return
    config = state.config_of(group.group_id)
    updated_targets(
        group, group.members, group.configured, config, group.epoch, draft, is_delayed=False
    )
    draft.check_fits()


@dataclass(slots=True)
class _Topics:
    """The topology as it is now, and what that is made for."""

    topology: StreamsTopology
    configured: ConfiguredTopology
    metadata_hash: int
    is_new: bool = field(default=False)

    @property
    def validated_epoch(self) -> int:
        """The epoch of the topology where its topics are all right."""
        return self.topology.epoch if self.configured.is_ready else NEVER_VALIDATED


class _Heartbeat:
    """One heartbeat of a member that joins or stays."""

    def __init__(
        self,
        state: GroupState,
        request: StreamsGroupHeartbeatRequest,
        context: RequestContext,
        draft: ResultDraft,
    ) -> None:
        self._state = state
        self._request = request
        self._draft = draft
        self._is_joining = request.member_epoch == JOINING_EPOCH
        self._has = said(request.active_tasks, request.standby_tasks, request.warmup_tasks)
        self._group = self._group_of(request.group_id)
        _check_size(state.config, self._group, request.member_id)
        self._before = self._member()
        self._after = _with_request(self._before, request, context)
        self._config = state.config_of(request.group_id)
        self._statuses: list[Status] = []

    def answer(self) -> HeartbeatAnswer:
        """The reply; records and timers are in the draft."""
        group, draft, after = self._group, self._draft, self._after
        is_changed = after != self._before or after.member_id not in group.members
        if is_changed:
            draft.records.append(member_record(group.group_id, after))
        topics = self._topics()
        if topics.configured.is_ready:
            request = self._request
            check_tasks(
                topics.configured.subtopologies, request.active_tasks, request.standby_tasks
            )
        epoch = self._updated_epoch(topics, is_changed=is_changed)
        delay_ms = self._config.group_streams_initial_rebalance_delay_ms
        is_first = group.is_empty and delay_ms > 0 and not group.is_delayed
        members = {**group.members, after.member_id: after}
        assignment = updated_targets(
            group,
            members,
            topics.configured,
            self._config,
            epoch,
            draft,
            is_delayed=group.is_delayed or is_first,
        )
        if assignment.delay is not None:
            self._add_status(*assignment.delay)
        moved = self._reconciled(assignment)
        draft.check_fits()
        # Only now: nothing can be refused any more.
        self._group = group = self._state.find(group.group_id, StreamsGroup) or self._new_group()
        if is_first:
            group.is_delayed = True
            timer = GroupTimer(StreamsTimer.INITIAL_REBALANCE, group.group_id)
            draft.set_timer(timer, delay_ms)
        self._keep(topics)
        session = GroupTimer(StreamsTimer.SESSION, group.group_id, after.member_id)
        draft.set_timer(session, self._config.group_streams_session_timeout_ms)
        if self._request.shutdown_application and group.shutdown_by is None:
            group.shutdown_by = after.member_id
        return self._reply(moved, topics.configured)

    def _group_of(self, group_id: str) -> StreamsGroup:
        state = self._state
        if group_id not in state.groups:
            if not self._is_joining:
                message = f"Streams group {group_id} not found."
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)
            return StreamsGroup(group_id)
        classic = state.find(group_id, ClassicGroup)
        if self._is_joining and classic is not None and classic.is_empty:
            self._draft.records.extend(classic.tombstones())
            return StreamsGroup(group_id)
        return state.of_kind(group_id, StreamsGroup)

    def _new_group(self) -> StreamsGroup:
        """A group that its first records, which are replayed next, would make.

        The deletion of a classic group is among them, and touches only such a group.
        """
        self._state.groups[self._group.group_id] = self._group
        return self._group

    def _member(self) -> StreamsMember:
        request = self._request
        if self._is_joining:
            known = self._group.members.get(request.member_id)
            return known or StreamsMember(request.member_id)
        member = self._group.known_member(request.member_id)
        check_epoch(member, request.member_epoch, self._has)
        return member

    def _topics(self) -> _Topics:
        """The topology with the topics as they are; what is new of it is written."""
        group, topics = self._group, self._state.topics
        topology = self._topology()
        known = group.topology
        if known is not None and self._after.topology_epoch < known.epoch:
            self._add_status(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {self._after.topology_epoch} is behind the group's "
                f"topology epoch {known.epoch}.",
            )
        configured = group.configured
        if known is not None and configured is not None and group.seen_topics == topics.version:
            return _Topics(topology, configured, group.metadata_hash)
        now_hash = metadata_hash(topology.required_topics, topics)
        if known is None or configured is None or now_hash != group.metadata_hash:
            return _Topics(topology, configure(topology, topics), now_hash, is_new=True)
        return _Topics(topology, configured, now_hash)

    def _topology(self) -> StreamsTopology:
        known, asked = self._group.topology, self._request.topology
        if asked is None:
            if known is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    "The topology is null and the group topology is also null.",
                )
            return known
        value = topology_value(asked)
        topology = StreamsTopology.of(value)
        if known is None:
            self._draft.records.append(topology_record(self._group.group_id, value))
            return topology
        if known.epoch <= topology.epoch and known != topology:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return known

    def _updated_epoch(self, topics: _Topics, *, is_changed: bool) -> int:
        """The group's epoch; a new one is written where something has changed."""
        group = self._group
        configs = assignment_configs(self._config)
        if not (
            is_changed
            or topics.metadata_hash != group.metadata_hash
            or topics.validated_epoch != group.validated_topology_epoch
            or configs != group.assignment_configs
        ):
            return group.epoch
        self._draft.records.append(
            epoch_record(
                group.group_id,
                group.epoch + 1,
                topics.metadata_hash,
                topics.validated_epoch,
                configs,
            )
        )
        return group.epoch + 1

    def _reconciled(self, assignment: TargetAssignment) -> StreamsMember:
        """The member after its next step, which is written."""
        group, draft, member = self._group, self._draft, self._after
        if member.is_reconciled_to(assignment.epoch):
            return member
        target = assignment.targets.get(member.member_id, NOTHING)
        moved = reconciled(member, assignment.epoch, target, group.owners, self._has)
        if moved != member:
            draft.records.append(current_record(group.group_id, moved))
            timer = GroupTimer(StreamsTimer.REBALANCE, group.group_id, member.member_id)
            if moved.state is MemberState.UNREVOKED_TASKS:
                draft.set_timer(timer, max(0, member.rebalance_timeout_ms))
            else:
                draft.cancel_timer(timer)
        return moved

    def _keep(self, topics: _Topics) -> None:
        group = self._group
        if topics.is_new:
            group.endpoints.clear()
        group.configured = topics.configured
        group.seen_topics = self._state.topics.version

    def _add_status(self, code: StatusCode, detail: str) -> None:
        self._statuses.append(Status(status_code=code, status_detail=detail))

    def _reply(self, moved: StreamsMember, configured: ConfiguredTopology) -> HeartbeatAnswer:
        group = self._group
        reply = StreamsGroupHeartbeatResponse(
            member_id=moved.member_id,
            member_epoch=moved.member_epoch,
            heartbeat_interval_ms=self._config.group_streams_heartbeat_interval_ms,
        )
        if self._is_joining or moved.assigned != self._before.assigned:
            reply.active_tasks = _ids(moved.assigned.active)
            reply.standby_tasks = _ids(moved.assigned.standby)
            reply.warmup_tasks = _ids(moved.assigned.warmup)
            group.endpoints.pop(moved.member_id, None)
            if moved.endpoint is not None:
                group.endpoint_epoch += 1
        if group.endpoint_epoch != self._request.endpoint_information_epoch:
            others = [each for each in group.members.values() if each.member_id != moved.member_id]
            reply.partitions_by_user_endpoint = endpoint_partitions(
                group, [*others, moved], configured, self._state.topics
            )
        reply.endpoint_information_epoch = group.endpoint_epoch
        if configured.problem is not None:
            self._add_status(*configured.problem)
        if group.shutdown_by is not None:
            self._add_status(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_by} encountered a fatal error and requested "
                "a shutdown for the entire application.",
            )
        reply.status = self._statuses
        return HeartbeatAnswer(reply, configured.to_create)


def _leave(
    state: GroupState, request: StreamsGroupHeartbeatRequest, draft: ResultDraft
) -> StreamsGroupHeartbeatResponse:
    group = state.of_kind(request.group_id, StreamsGroup)
    remove_member(group, group.known_member(request.member_id), draft)
    if request.shutdown_application and group.shutdown_by is None:
        group.shutdown_by = request.member_id
    return StreamsGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch, status=[]
    )


def _check_size(config: GroupConfig, group: StreamsGroup, member_id: str) -> None:
    limit = config.group_streams_max_size
    if len(group.members) >= limit and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The streams group has reached its maximum capacity of {limit} members.",
        )


def _with_request(
    member: StreamsMember, request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> StreamsMember:
    """The member with what the request says; what it leaves out stays as it was."""
    timeout, endpoint, tags = (
        request.rebalance_timeout_ms,
        request.user_endpoint,
        request.client_tags,
    )
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        topology_epoch=(
            member.topology_epoch if request.topology is None else request.topology.epoch
        ),
        client_id=context.client_id,
        client_host=context.client_host,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=member.endpoint if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=(
            member.client_tags if tags is None else {each.key: each.value for each in tags}
        ),
    )


def _ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=each) for name, each in listed(tasks)]
