"""What the coordinator does with groups of one kind: requests of the classic protocol, and timers.

Rules kept here:
1. A kind that does not serve the classic protocol refuses its requests as Kafka does: a join with
   INCONSISTENT_GROUP_PROTOCOL, the others with UNKNOWN_MEMBER_ID.
2. A method that raises KafkaError has changed nothing, and what it gathered is thrown away.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from ottla.coordinator.group import Group
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.group_timers import GroupTimer
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import Deferred, RequestContext
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

G = TypeVar("G", bound=Group)


class GroupKind(ABC, Generic[G]):
    """One kind of group."""

    @abstractmethod
    def start_timers(self, state: GroupState, group: G, draft: ResultDraft) -> None:
        """The group was loaded: start the sessions of its members."""

    @abstractmethod
    def expire(self, state: GroupState, group: G, timer: GroupTimer, draft: ResultDraft) -> None:
        """A timer is due that names this group."""

    def join(
        self,
        state: GroupState,
        group: G,
        request: JoinGroupRequest,
        context: RequestContext,
        draft: ResultDraft,
    ) -> JoinGroupResponse | Deferred:
        """Handle a JoinGroup."""
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def sync(
        self, state: GroupState, group: G, request: SyncGroupRequest, draft: ResultDraft
    ) -> SyncGroupResponse | Deferred:
        """Handle a SyncGroup."""
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def heartbeat(
        self, state: GroupState, group: G, request: HeartbeatRequest, draft: ResultDraft
    ) -> ErrorCode:
        """Handle a Heartbeat."""
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def leave(
        self, state: GroupState, group: G, leaving: Iterable[MemberIdentity], draft: ResultDraft
    ) -> list[MemberResponse]:
        """Handle a LeaveGroup."""
        return unknown_members(leaving)


def unknown_members(leaving: Iterable[MemberIdentity]) -> list[MemberResponse]:
    """What a LeaveGroup gets where nobody of it can be a member."""
    return [
        MemberResponse(
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            error_code=ErrorCode.UNKNOWN_MEMBER_ID,
        )
        for identity in leaving
    ]
