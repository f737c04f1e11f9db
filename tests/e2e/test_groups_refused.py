"""Requests of classic groups that Kafka refuses, with the codes that it refuses them with."""

from collections.abc import Callable

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.headers import write_request_header
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from testkit.raw import ClosedError, Connection, frame
from tests.e2e.asking_groups import (
    GROUP,
    PROTOCOLS,
    TRANSACTION,
    Joined,
    coordinated,
    describe_group,
    find_coordinator,
    heartbeat,
    join,
    join_alone,
    join_request,
    leave,
    sync,
)

STRANGER = Joined("nobody-1234", 1)
LONGEST_STRING = 32_767
NOT_TOLD = -(2**31)


@pytest.fixture
def group(connection: Connection, new_name: Callable[[], str]) -> str:
    return coordinated(connection, new_name())


# Names

NAMELESS: dict[str, Callable[[Connection], int]] = {
    "join": lambda asking: join(asking, join_request("")).error_code,
    "sync": lambda asking: sync(asking, "", STRANGER).error_code,
    "heartbeat": lambda asking: heartbeat(asking, "", STRANGER),
    "leave": lambda asking: leave(asking, "", STRANGER.member_id)[0],
    "delete offsets": lambda asking: (
        asking.ask(OffsetDeleteRequest(), OffsetDeleteResponse, 0).error_code
    ),
}


@pytest.mark.parametrize("what", NAMELESS)
def test_a_group_has_a_name(connection: Connection, group: str, what: str) -> None:
    assert NAMELESS[what](connection) == ErrorCode.INVALID_GROUP_ID


def heartbeat_of_long_name(length: int) -> bytes:
    """By hand: no writer would write it."""
    size = length + 1
    prefix = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
    return frame(
        write_request_header(HeartbeatRequest.API_KEY, 4, 1, "raw")
        + prefix
        + b"g" * length
        + b"\0\0\0\1\2a\0\0"
    )


@pytest.mark.parametrize("length", [LONGEST_STRING + 1, 100_000])
def test_a_name_beyond_the_longest_string_ends_the_connection(
    connection: Connection, length: int
) -> None:
    connection.send_bytes(heartbeat_of_long_name(length))
    with pytest.raises(ClosedError):
        connection.receive_frame()


def test_a_name_may_be_as_long_as_a_string(connection: Connection, group: str) -> None:
    longest = group.ljust(LONGEST_STRING, "g")
    member = join_alone(connection, longest)
    assert heartbeat(connection, longest, member) == 0
    assert leave(connection, longest, member.member_id) == (0, [0])


def test_only_known_kinds_have_coordinators(connection: Connection) -> None:
    request = FindCoordinatorRequest(key_type=3, coordinator_keys=["a"])
    (found,) = connection.ask(request, FindCoordinatorResponse, 6).coordinators
    assert (found.error_code, found.node_id, found.port) == (ErrorCode.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize(("version", "message"), [(0, ""), (1, "NONE"), (3, "NONE")])
def test_an_old_answer_names_its_success(
    connection: Connection, group: str, version: int, message: str
) -> None:
    find_coordinator(connection, group, 0)
    found = connection.ask(FindCoordinatorRequest(key=group), FindCoordinatorResponse, version)
    assert (found.error_code, found.error_message) == (ErrorCode.NONE, message)


# Strangers


@pytest.mark.parametrize("is_known", [False, True])
def test_a_stranger_is_refused(connection: Connection, group: str, is_known: bool) -> None:
    if is_known:
        join_alone(connection, group)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert join(connection, join_request(group, "nobody-1234")).error_code == unknown
    assert sync(connection, group, STRANGER).error_code == unknown
    assert heartbeat(connection, group, STRANGER) == unknown
    assert leave(connection, group, STRANGER.member_id) == (0, [unknown])


def test_a_stranger_who_leaves_is_told_so_in_old_versions_too(
    connection: Connection, group: str
) -> None:
    join_alone(connection, group)
    request = LeaveGroupRequest(group_id=group, member_id="nobody-1234")
    answer = connection.ask(request, LeaveGroupResponse, 2)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_asking_for_a_member_id_makes_no_member(connection: Connection, group: str) -> None:
    answer = connection.ask(join_request(group), JoinGroupResponse, 9)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    pending = Joined(answer.member_id, 0)
    assert heartbeat(connection, group, pending) == ErrorCode.UNKNOWN_MEMBER_ID
    assert describe_group(connection, group).members == []


# Generations


@pytest.mark.parametrize("step", [-1, 1])
def test_another_generation_is_refused(connection: Connection, group: str, step: int) -> None:
    member = join_alone(connection, group)
    other = Joined(member.member_id, member.generation + step)
    assert heartbeat(connection, group, other) == ErrorCode.ILLEGAL_GENERATION
    assert sync(connection, group, other).error_code == ErrorCode.ILLEGAL_GENERATION
    assert heartbeat(connection, group, member) == 0


def test_a_member_that_must_join_again_is_told_so(
    connect: Callable[[], Connection], group: str
) -> None:
    first, second = connect(), connect()
    member = join_alone(first, group)
    newcomer = join_request(group)
    newcomer.member_id = second.ask(newcomer, JoinGroupResponse, 9).member_id
    second.send(newcomer, 9)
    assert wait_for_rebalance(first, group, member) == ErrorCode.REBALANCE_IN_PROGRESS
    assert sync(first, group, member).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = join(first, join_request(group, member.member_id))
    _, other = second.receive(JoinGroupResponse, 9)
    assert again.generation_id == other.generation_id == member.generation + 1
    assert again.leader == other.leader == member.member_id
    assert [seen.member_id for seen in other.members] == []
    assert len(again.members) == 2
    assert heartbeat(first, group, member) == ErrorCode.ILLEGAL_GENERATION


def wait_for_rebalance(connection: Connection, group: str, member: Joined) -> int:
    """The first answer to a heartbeat that is not "all is well"."""
    while True:
        if error := heartbeat(connection, group, member):
            return error


# Static members


def test_a_taken_place_fences_the_one_who_had_it(connection: Connection, group: str) -> None:
    old = join_alone(connection, group, instance_id="static")
    new = join(connection, join_request(group, instance_id="static"))
    assert (new.error_code, new.generation_id) == (0, old.generation)
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert heartbeat(connection, group, old) == fenced
    assert sync(connection, group, old).error_code == fenced
    assert leave(connection, group, old.member_id, "static") == (0, [fenced])
    rejoin = join_request(group, old.member_id, instance_id="static")
    assert join(connection, rejoin).error_code == fenced
    assert heartbeat(connection, group, Joined(new.member_id, new.generation_id, "static")) == 0


def test_an_unknown_instance_id_is_a_stranger(connection: Connection, group: str) -> None:
    member = join_alone(connection, group, instance_id="static")
    other = Joined(member.member_id, member.generation, "other")
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(connection, group, other) == unknown
    assert sync(connection, group, other).error_code == unknown
    assert leave(connection, group, "", "other") == (0, [unknown])
    assert leave(connection, group, "", "static") == (0, [0])


# What members have in common


@pytest.mark.parametrize("session_ms", [0, 1, 5_999, 1_800_001, 2**31 - 1])
def test_session_timeouts_have_limits(connection: Connection, group: str, session_ms: int) -> None:
    answer = join(connection, join_request(group, session_ms=session_ms))
    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_members_agree_on_a_protocol(connection: Connection, group: str) -> None:
    join_alone(connection, group)
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = join_request(group, protocols=[("other", b"")])
    assert join(connection, other).error_code == inconsistent
    connect = join_request(group, protocol_type="connect")
    assert join(connection, connect).error_code == inconsistent


@pytest.mark.parametrize(("kind", "protocols"), [("", PROTOCOLS), ("consumer", ())])
def test_a_first_member_names_its_protocols(
    connection: Connection, group: str, kind: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    request = join_request(group, protocol_type=kind, protocols=protocols)
    answer = join(connection, request)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_sync_names_the_protocol_of_its_group(connection: Connection, group: str) -> None:
    member = join_alone(connection, group)
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sync(connection, group, member, protocol_name="other").error_code == inconsistent
    assert sync(connection, group, member, protocol_type="connect").error_code == inconsistent
    assert sync(connection, group, member).assignment == b"mine"


@pytest.mark.parametrize(("kind", "name"), [(None, "range"), ("consumer", None), (None, None)])
def test_a_sync_leaves_the_protocol_out_only_in_old_versions(
    connection: Connection, group: str, kind: str | None, name: str | None
) -> None:
    member = join_alone(connection, group)
    answer = sync(connection, group, member, protocol_type=kind, protocol_name=name)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    old = sync(connection, group, member, protocol_type=None, protocol_name=None, version=4)
    assert (old.error_code, old.assignment) == (0, b"mine")


def test_a_refused_request_changes_nothing(connection: Connection, group: str) -> None:
    member = join_alone(connection, group)
    before = describe_group(connection, group)
    heartbeat(connection, group, STRANGER)
    sync(connection, group, Joined(member.member_id, 7))
    join(connection, join_request(group, "nobody-1234"))
    join(connection, join_request(group, protocols=[("other", b"")]))
    leave(connection, group, "nobody-1234")
    assert describe_group(connection, group) == before
    assert heartbeat(connection, group, member) == 0


@pytest.mark.parametrize(("version", "protocol"), [(6, ""), (7, None), (9, None)])
def test_who_is_refused_is_told_no_protocol(
    connection: Connection, group: str, version: int, protocol: str | None
) -> None:
    answer = join(connection, join_request(group, member_id=STRANGER.member_id), version)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert answer.protocol_name == protocol


@pytest.mark.parametrize("kind", [GROUP, TRANSACTION])
def test_a_nameless_group_or_transaction_has_a_coordinator_too(
    connection: Connection, kind: int
) -> None:
    find_coordinator(connection, "", kind)


def test_what_may_be_done_with_a_group_is_told_of_groups_that_are_there(
    connection: Connection, group: str
) -> None:
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=True)
    missing = connection.ask(request, DescribeGroupsResponse, 6).groups[0]
    assert missing.authorized_operations == NOT_TOLD
    join_alone(connection, group)
    present = connection.ask(request, DescribeGroupsResponse, 6).groups[0]
    # READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS.
    assert present.authorized_operations == 0b1101_0100_1000
