"""A kind of group that the classic and consumer code does not know is never taken for one of them.

The kind here stands for any new one: it has a row, members of its own, and no committed offsets.
"""

import ast
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path

import pytest

import ottla.coordinator
from ottla.coordinator.consumer.records import epoch_record, group_tombstone
from ottla.coordinator.group import BaseTimestamp, Committer, CommitTopic, Group, GroupType
from ottla.coordinator.group_kind import GroupKind
from ottla.coordinator.group_kinds import GROUP_KINDS, kind_of
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.group_timers import GroupTimer, GroupTimerKind
from ottla.coordinator.offsets.records import OffsetCommitKey
from ottla.coordinator.record_codec import write_tombstone
from ottla.coordinator.record_kinds import RECORD_KINDS
from ottla.coordinator.result_draft import ResultDraft
from ottla.coordinator.shard import CoordinatorRecord, SetTimer
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import OffsetDeleteRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup
from ottla.wire.messages.sync_group import SyncGroupRequest

from .groups_world import World, answer, context


class _OtherType(Enum):
    OTHER = "other"


class _OtherTimer(GroupTimerKind):
    SESSION = "a member is removed"


class _OtherGroup(Group):
    TYPE = _OtherType.OTHER  # type: ignore[assignment]  # a kind that is not there yet

    def __init__(self, group_id: str, members: int) -> None:
        self.group_id = group_id
        self.members = members

    state_name = "Stable"
    listed_protocol_type = "other"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def may_expire(self) -> bool:
        return False

    def is_subscribed_to(self, topic: str) -> bool:
        return False

    def check_commit(self, committer: Committer, topics: Iterable[CommitTopic]) -> None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)

    def keep_session(self, committer: Committer, draft: ResultDraft) -> None:
        raise AssertionError("nobody can commit")

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)

    def check_offset_delete(self) -> None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)

    def offset_expiration(self) -> BaseTimestamp | None:
        return None

    def tombstones(self) -> Iterable[CoordinatorRecord]:
        return [write_tombstone(OffsetCommitKey(group=self.group_id, topic="its tombstone"))]


class _OtherKind(GroupKind[_OtherGroup]):
    def start_timers(self, state: GroupState, group: _OtherGroup, draft: ResultDraft) -> None:
        draft.set_timer(GroupTimer(_OtherTimer.SESSION, group.group_id), 7)

    def expire(
        self, state: GroupState, group: _OtherGroup, timer: GroupTimer, draft: ResultDraft
    ) -> None:
        if timer.kind is _OtherTimer.SESSION:
            group.members = 0


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setitem(GROUP_KINDS, _OtherType.OTHER, _OtherKind())  # type: ignore[misc]
    world = World()
    world.topics.create("a", 1)
    world.shard._state.groups["g"] = _OtherGroup("g", members=1)
    return world


def test_its_group_can_neither_be_joined_nor_left_with_the_classic_protocol(world: World) -> None:
    shard = world.shard
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    joined = answer(shard.handle_join_group(join, context(9), 0))
    assert (joined.error_code, joined.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    sync = SyncGroupRequest(group_id="g", protocol_type="consumer", protocol_name="range")
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert answer(shard.handle_sync_group(sync, context(5), 0)).error_code == unknown
    heartbeat = HeartbeatRequest(group_id="g", member_id="m")
    assert answer(shard.handle_heartbeat(heartbeat, context(4), 0)).error_code == unknown
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")])
    left = answer(shard.handle_leave_group(leave, context(5), 0))
    assert [each.error_code for each in left.members] == [unknown]


@pytest.mark.parametrize("epoch", [0, 1, -1])
def test_it_is_not_found_by_members_of_consumer_groups(world: World, epoch: int) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["a"],
        topic_partitions=[],
    )
    result = world.shard.handle_consumer_group_heartbeat(request, context(1), 0)
    assert answer(result).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer(result).error_message == "Group g is not a consumer group."
    assert not result.records


def test_it_is_listed_as_what_it_is_and_described_as_nothing_else(world: World) -> None:
    shard = world.shard
    (listed,) = answer(shard.handle_list_groups(ListGroupsRequest(), context(5), 0))
    assert (listed.group_type, listed.protocol_type, listed.group_state) == (
        "other",
        "other",
        "Stable",
    )
    of_consumers = ListGroupsRequest(types_filter=["consumer", "classic"])
    assert answer(shard.handle_list_groups(of_consumers, context(5), 0)) == []
    (classic,) = answer(shard.handle_describe_groups(["g"], context(6), 0))
    assert (classic.error_code, classic.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a classic group.",
    )
    (consumer,) = answer(shard.handle_consumer_group_describe(["g"], context(1), 0))
    assert (consumer.error_code, consumer.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a consumer group.",
    )


def test_it_decides_itself_on_offsets_and_on_its_end(world: World) -> None:
    shard = world.shard
    not_found = ErrorCode.GROUP_ID_NOT_FOUND
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    commit = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="a", partitions=[partition])]
    )
    committed = answer(shard.handle_offset_commit(commit, context(9), 0))
    assert committed.topics[0].partitions[0].error_code == not_found
    fetch = OffsetFetchRequestGroup(group_id="g", topics=None)
    assert answer(shard.handle_offset_fetch(fetch, context(9), 0)).error_code == not_found
    delete = OffsetDeleteRequest(group_id="g")
    assert answer(shard.handle_offset_delete(delete, context(0), 0)).error_code == not_found
    (refused,) = answer(shard.handle_delete_groups(["g"], context(2), 0))
    assert refused.error_code == ErrorCode.NON_EMPTY_GROUP


def test_its_timers_are_its_own(world: World) -> None:
    shard = world.shard
    timer = GroupTimer(_OtherTimer.SESSION, "g")
    assert SetTimer(timer, 7) in shard.loaded(0).timers
    shard.expire(timer, 7)
    deleted = shard.handle_delete_groups(["g"], context(2), 8)
    assert [each.error_code for each in answer(deleted)] == [ErrorCode.NONE]
    assert deleted.records == _OtherGroup("g", 0).tombstones()


def test_records_of_a_consumer_group_do_not_take_its_place(world: World) -> None:
    with pytest.raises(RuntimeError, match="but g is of kind other"):
        world.shard.replay(epoch_record("g", 1, 0))
    world.shard.replay(group_tombstone("g"))
    assert world.shard._state.groups["g"].TYPE.value == "other"


def test_a_kind_without_a_row_is_an_error() -> None:
    with pytest.raises(KeyError):
        kind_of(_OtherGroup("g", members=1))


def test_every_kind_has_a_row_and_records() -> None:
    assert set(GROUP_KINDS) == set(GroupType)
    assert {kind.owner for kind in RECORD_KINDS.values()} == {None, *GroupType}


def _asked_for_a_class_of_group(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "isinstance"
        ):
            named = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
            if named & {"ClassicGroup", "ConsumerGroup", "Group"}:
                yield node.lineno


def test_nobody_asks_for_the_class_of_a_group() -> None:
    source = Path(ottla.coordinator.__file__).parent
    found = {
        path.name: lines
        for path in source.rglob("*.py")
        if (lines := [*_asked_for_a_class_of_group(ast.parse(path.read_text()))])
    }
    assert not found
