"""The requests of consumer groups by hand: ready-made bytes, so that the client costs little.

Only what the works of the coordinators need, in old versions without tagged fields. All requests
have the same correlation id: a connection's answers come in order, and equal requests then get
equal answers, which are compared as bytes.
"""

import struct
from typing import NamedTuple

from testkit.errors import HarnessError
from testkit.probe import CLIENT_ID

CORRELATION_ID = 7
NO_GENERATION = -1
NO_RETENTION = -1
LONG_MS = 1_800_000  # sessions outlast the other side's turns
PROTOCOL = b"range"
REBALANCE_IN_PROGRESS = 27

OFFSET_COMMIT = (8, 2)
FIND_COORDINATOR = (10, 0)
JOIN_GROUP = (11, 3)
HEARTBEAT = (12, 2)
SYNC_GROUP = (14, 2)


class Join(NamedTuple):
    """What a JoinGroup was answered with."""

    generation: int
    leader: bytes
    member_id: bytes
    members: list[bytes]


def request(api: tuple[int, int], body: bytes) -> bytes:
    """A framed request."""
    key, version = api
    head = struct.pack(">hhi", key, version, CORRELATION_ID) + string(CLIENT_ID)
    return struct.pack(">i", len(head) + len(body)) + head + body


def string(value: bytes) -> bytes:
    """A string with its length before it."""
    return struct.pack(">h", len(value)) + value


def data(value: bytes) -> bytes:
    """Bytes with their length before them."""
    return struct.pack(">i", len(value)) + value


def find_coordinator(group: bytes) -> bytes:
    """Asks who coordinates a group, and so makes the topic of offsets if it is not there yet."""
    return request(FIND_COORDINATOR, string(group))


def commit(group: bytes, topic: bytes, offset: int) -> bytes:
    """Commits an offset of partition 0, as a consumer that is in no group's membership."""
    head = string(group) + struct.pack(">i", NO_GENERATION) + string(b"")
    place = struct.pack(">iiq", 1, 0, offset) + string(b"")
    return request(
        OFFSET_COMMIT,
        head + struct.pack(">qi", NO_RETENTION, 1) + string(topic) + place,
    )


def committed(topic: bytes) -> bytes:
    """The framed answer to such a commit where all is well."""
    body = struct.pack(">ii", CORRELATION_ID, 1) + string(topic) + struct.pack(">iih", 1, 0, 0)
    return data(body)


def join(group: bytes, member_id: bytes, metadata: bytes) -> bytes:
    """Joins a classic group; the first time without a member id."""
    head = string(group) + struct.pack(">ii", LONG_MS, LONG_MS) + string(member_id)
    protocols = struct.pack(">i", 1) + string(PROTOCOL) + data(metadata)
    return request(JOIN_GROUP, head + string(b"consumer") + protocols)


def sync(
    group: bytes, generation: int, member_id: bytes, assignments: list[tuple[bytes, bytes]]
) -> bytes:
    """Asks for an assignment; the leader's brings them."""
    parts = [string(who) + data(what) for who, what in assignments]
    head = string(group) + struct.pack(">i", generation) + string(member_id)
    return request(SYNC_GROUP, head + struct.pack(">i", len(parts)) + b"".join(parts))


def heartbeat(group: bytes, generation: int, member_id: bytes) -> bytes:
    """A sign of life."""
    return request(HEARTBEAT, string(group) + struct.pack(">i", generation) + string(member_id))


def error_of(answer: bytes, at: int) -> int:
    """The error code at a place of an answer (without its length)."""
    (code,) = struct.unpack_from(">h", answer, at)
    return int(code)


def joined(answer: bytes) -> Join:
    """Reads the answer to a join."""
    if error := error_of(answer, 8):
        raise HarnessError(f"a join was refused: error code {error}")
    (generation,) = struct.unpack_from(">i", answer, 10)
    _, at = _string(answer, 14)
    leader, at = _string(answer, at)
    member_id, at = _string(answer, at)
    (count,) = struct.unpack_from(">i", answer, at)
    at += 4
    members = []
    for _ in range(count):
        name, at = _string(answer, at)
        members.append(name)
        (size,) = struct.unpack_from(">i", answer, at)
        at += 4 + size
    return Join(generation, leader, member_id, members)


def assigned(answer: bytes) -> bytes:
    """Reads the answer to a sync."""
    if error := error_of(answer, 8):
        raise HarnessError(f"a sync was refused: error code {error}")
    return answer[14:]


def _string(answer: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(">h", answer, at)
    end = at + 2 + int(length)
    return answer[at + 2 : end], end
