"""The requests that the bench makes by hand are what Kafka's schemas say."""

import struct

from bench import group_protocol as protocol
from ottla.wire import codec
from ottla.wire.headers import write_request_header
from ottla.wire.message import Message
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from testkit.probe import CLIENT_ID

CORRELATION = struct.pack(">i", protocol.CORRELATION_ID)


def body(frame: bytes, api: tuple[int, int]) -> bytes:
    """A request's body, once its frame and header are seen to be right."""
    assert struct.unpack_from(">ihh", frame) == (len(frame) - 4, *api)
    head = write_request_header(*api, protocol.CORRELATION_ID, CLIENT_ID.decode())
    assert frame[4:].startswith(head)
    return frame[4 + len(head) :]


def test_a_commit() -> None:
    made = body(protocol.commit(b"group", b"topic", 5), protocol.OFFSET_COMMIT)
    place = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    wanted = OffsetCommitRequest(
        group_id="group", topics=[OffsetCommitRequestTopic(name="topic", partitions=[place])]
    )
    assert made == codec.encode(wanted, protocol.OFFSET_COMMIT[1])


def test_the_answer_to_a_commit() -> None:
    place = OffsetCommitResponsePartition(partition_index=0)
    answer = OffsetCommitResponse(
        topics=[OffsetCommitResponseTopic(name="topic", partitions=[place])]
    )
    encoded = CORRELATION + codec.encode(answer, protocol.OFFSET_COMMIT[1])
    assert protocol.committed(b"topic") == protocol.data(encoded)


def test_a_members_requests() -> None:
    join = JoinGroupRequest(
        group_id="group",
        session_timeout_ms=protocol.LONG_MS,
        rebalance_timeout_ms=protocol.LONG_MS,
        member_id="member",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"metadata")],
    )
    assignment = SyncGroupRequestAssignment(member_id="member", assignment=b"mine")
    made: list[tuple[bytes, tuple[int, int], Message]] = [
        (
            protocol.find_coordinator(b"group"),
            protocol.FIND_COORDINATOR,
            FindCoordinatorRequest(key="group"),
        ),
        (protocol.join(b"group", b"member", b"metadata"), protocol.JOIN_GROUP, join),
        (
            protocol.sync(b"group", 3, b"member", [(b"member", b"mine")]),
            protocol.SYNC_GROUP,
            SyncGroupRequest(
                group_id="group", generation_id=3, member_id="member", assignments=[assignment]
            ),
        ),
        (
            protocol.heartbeat(b"group", 3, b"member"),
            protocol.HEARTBEAT,
            HeartbeatRequest(group_id="group", generation_id=3, member_id="member"),
        ),
    ]
    for frame, api, wanted in made:
        assert body(frame, api) == codec.encode(wanted, api[1])


def test_a_members_answers() -> None:
    members = [JoinGroupResponseMember(member_id=name, metadata=b"x") for name in ("a", "b")]
    answer = JoinGroupResponse(
        generation_id=4, protocol_name="range", leader="a", member_id="b", members=members
    )
    encoded = CORRELATION + codec.encode(answer, protocol.JOIN_GROUP[1])
    assert protocol.joined(encoded) == protocol.Join(4, b"a", b"b", [b"a", b"b"])
    given = CORRELATION + codec.encode(
        SyncGroupResponse(assignment=b"mine"), protocol.SYNC_GROUP[1]
    )
    assert protocol.assigned(given) == b"mine"
