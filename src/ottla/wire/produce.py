"""Produce (api key 0), versions 3 to 13, by hand: its records stay where they were received.

Rules kept here:
1. A request is read whole before anything of it is acted on.
2. Records are views into the request's own bytes: no copy is made of them.
3. A topic is named by a string up to version 12 and by its id from 13 on.
"""

from collections.abc import Sequence
from struct import Struct, error
from typing import NamedTuple

from ottla.wire.fields import (
    INT32,
    DecodeError,
    count,
    nullable_string,
    read_count,
    read_string,
    read_topic_id,
    read_uvarint,
    skip_tags,
    string,
)

FIRST_VERSION = 3
LAST_VERSION = 13
FIRST_FLEXIBLE = 9
FIRST_WITH_TOPIC_IDS = 13

_ACKS_TIMEOUT = Struct(">hi")
_INDEX_SIZE = Struct(">ii")
_RESULT = Struct(">ihqqq")
_RESULT_V3 = Struct(">ihqq")
_LEADER = Struct(">BBii")

TopicKey = str | bytes
"""A topic as a request names it: by name, or by the 16 bytes of its id."""


class ProduceRequest(NamedTuple):
    """What a producer asks: batches by topic and partition."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]]


class PartitionResult(NamedTuple):
    """What became of one partition's batch."""

    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    message: str | None = None
    leader: tuple[int, int] | None = None
    """Id and epoch of the present leader, for a client that came to the wrong broker (KIP-951)."""
    record_errors: Sequence[tuple[int, str | None]] = ()
    """Place in the batch and reason, for each record that is to blame (KIP-467)."""


class NodeEndpoint(NamedTuple):
    """Where a broker is found, beside a leader hint."""

    node_id: int
    host: str
    port: int
    rack: str | None


def read_request(view: memoryview, at: int, version: int) -> ProduceRequest:
    """Read a whole request; raises DecodeError where it is malformed."""
    try:
        return _read_request(view, at, version)
    except (error, IndexError, UnicodeDecodeError) as problem:
        raise DecodeError(f"a malformed Produce request: {problem}") from None


def _read_request(view: memoryview, at: int, version: int) -> ProduceRequest:
    flexible = version >= FIRST_FLEXIBLE
    by_id = version >= FIRST_WITH_TOPIC_IDS
    transactional_id, at = read_string(view, at, flexible)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(view, at)
    topic_count, at = read_count(view, at + 6, flexible, 3)
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]] = []
    for _ in range(topic_count):
        topic: TopicKey | None
        if by_id:
            topic, at = read_topic_id(view, at)
        else:
            topic, at = read_string(view, at, flexible)
            if topic is None:
                raise DecodeError("a Produce request with a null topic name")
        partition_count, at = read_count(view, at, flexible, 5)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            if flexible:
                (index,) = INT32.unpack_from(view, at)
                size, at = read_uvarint(view, at + 4)
                size -= 1
            else:
                index, size = _INDEX_SIZE.unpack_from(view, at)
                at += 8
            if size < 0:
                partitions.append((index, None))
            else:
                end = at + size
                if end > len(view):
                    raise DecodeError(f"records of {size} bytes with {len(view) - at} left")
                partitions.append((index, view[at:end]))
                at = end
            if flexible:
                at = skip_tags(view, at)
        topics.append((topic, partitions))
        if flexible:
            at = skip_tags(view, at)
    if flexible:
        skip_tags(view, at)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def response(
    version: int,
    topics: Sequence[tuple[TopicKey, Sequence[PartitionResult]]],
    throttle_time_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The bytes of a reply, without its header."""
    flexible = version >= FIRST_FLEXIBLE
    out = [count(len(topics), flexible)]
    for topic, results in topics:
        out.append(topic if isinstance(topic, bytes) else string(topic, flexible))
        out.append(count(len(results), flexible))
        for result in results:
            if version < 5:
                out.append(_RESULT_V3.pack(*result[:4]))
                continue
            out.append(_RESULT.pack(*result[:5]))
            if version >= 8:
                out.append(count(len(result.record_errors), flexible))
                for place, reason in result.record_errors:
                    out.append(INT32.pack(place) + nullable_string(reason, flexible))
                    if flexible:
                        out.append(b"\x00")
                out.append(nullable_string(result.message, flexible))
            if flexible:
                if result.leader is None or version < 10:
                    out.append(b"\x00")
                else:
                    out.append(b"\x01" + _LEADER.pack(0, 9, *result.leader) + b"\x00")
        if flexible:
            out.append(b"\x00")
    out.append(INT32.pack(throttle_time_ms))
    if flexible:
        out.append(endpoint_tag(endpoints) if version >= 10 else b"\x00")
    return b"".join(out)


def endpoint_tag(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged section with which Produce and Fetch replies end: where hinted leaders are."""
    if not endpoints:
        return b"\x00"
    body = count(len(endpoints), True) + b"".join(
        INT32.pack(node.node_id)
        + string(node.host, True)
        + INT32.pack(node.port)
        + nullable_string(node.rack, True)
        + b"\x00"
        for node in endpoints
    )
    return b"\x01\x00" + count(len(body) - 1, True) + body
