"""Produce (api key 0), versions 3 to 13, by hand: its records stay where they were received.

Rules kept here:
1. A request is read whole before anything of it is acted on.
2. Records are views into the request's own bytes: no copy is made of them.
3. A topic is named by a string up to version 12 and by its id from 13 on.
4. A request has batches for at most MOST_PARTITIONS.
5. The loop reads few of them (`most`); a thread reads the others, and writes their reply, with an
   iterator that pauses (`each`).
"""

from collections.abc import Callable, Iterable, Sequence
from struct import Struct, error
from typing import Any, NamedTuple, TypeVar

import msgspec

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

T = TypeVar("T")

FIRST_VERSION = 3
LAST_VERSION = 13
FIRST_FLEXIBLE = 9
FIRST_WITH_TOPIC_IDS = 13
MOST_PARTITIONS = 20_000
"""A producer's request of a megabyte, its default, has room for fewer batches than that."""

_ACKS_TIMEOUT = Struct(">hi")
_INDEX_SIZE = Struct(">ii")
_RESULT = Struct(">ihqqq")
_RESULT_V3 = Struct(">ihqq")
_LEADER = Struct(">BBii")
_FLEXIBLE_SUCCESS = Struct(">BihqqqB8x")
"""A count of one, a result, no faulty records; zeros: no message, tags or throttling."""
_ONE = b"\x00\x00\x00\x01"
_NO_THROTTLE = b"\x00\x00\x00\x00"

TopicKey = str | bytes
"""A topic as a request names it: by name, or by the 16 bytes of its id."""
Each = Callable[[Iterable[T]], Iterable[T]]
"""Gives the elements one by one."""


class ManyPartitionsError(Exception):
    """A request has more partitions than the reader was to read."""


class ProduceRequest(msgspec.Struct, frozen=True, gc=False):
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


def read_request(
    view: memoryview,
    at: int,
    version: int,
    most: int = MOST_PARTITIONS,
    each: Each[int] = iter,
) -> ProduceRequest:
    """Read a whole request; raises DecodeError where it is malformed.

    Raises ManyPartitionsError where it has more than `most` partitions.
    """
    try:
        return _read_request(view, at, version, most, each)
    except (error, IndexError, UnicodeDecodeError) as problem:
        raise DecodeError(f"a malformed Produce request: {problem}") from None


def _read_request(
    view: memoryview, at: int, version: int, most: int, each: Each[int]
) -> ProduceRequest:
    if version < FIRST_FLEXIBLE:
        return _read_classic(view, at, most, each)
    # Lengths of one byte and empty tag sections are the rule: they are read in place, and the
    # functions that know the rest are called for the exceptions only.
    by_id = version >= FIRST_WITH_TOPIC_IDS
    transactional_id = None
    if view[at]:
        transactional_id, at = read_string(view, at, True)
    else:
        at += 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(view, at)
    topic_count, at = read_count(view, at + 6, True, 3)
    left = most
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]] = []
    for _ in each(range(topic_count)):
        topic: TopicKey | None
        if by_id:
            topic, at = read_topic_id(view, at)
        else:
            topic, at = read_string(view, at, True)
            if topic is None:
                raise DecodeError("a Produce request with a null topic name")
        partition_count, at = read_count(view, at, True, 5)
        left -= max(1, partition_count)
        if left < 0:
            raise _too_many(most)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in each(range(partition_count)):
            (index,) = INT32.unpack_from(view, at)
            size, at = read_uvarint(view, at + 4)
            if size:
                end = at + size - 1
                if end > len(view):
                    raise DecodeError(f"records of {size - 1} bytes with {len(view) - at} left")
                partitions.append((index, view[at:end]))
                at = end
            else:
                partitions.append((index, None))
            at = skip_tags(view, at) if view[at] else at + 1
        topics.append((topic, partitions))
        at = skip_tags(view, at) if view[at] else at + 1
    if view[at]:
        skip_tags(view, at)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read_classic(view: memoryview, at: int, most: int, each: Each[int]) -> ProduceRequest:
    transactional_id, at = read_string(view, at, False)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(view, at)
    topic_count, at = read_count(view, at + 6, False, 6)
    left = most
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]] = []
    for _ in each(range(topic_count)):
        topic, at = read_string(view, at, False)
        if topic is None:
            raise DecodeError("a Produce request with a null topic name")
        partition_count, at = read_count(view, at, False, 8)
        left -= max(1, partition_count)
        if left < 0:
            raise _too_many(most)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in each(range(partition_count)):
            index, size = _INDEX_SIZE.unpack_from(view, at)
            at += 8
            end = at + size
            if size < 0:
                partitions.append((index, None))
                continue
            if end > len(view):
                raise DecodeError(f"records of {size} bytes with {len(view) - at} left")
            partitions.append((index, view[at:end]))
            at = end
        topics.append((topic, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _too_many(most: int) -> Exception:
    if most < MOST_PARTITIONS:
        return ManyPartitionsError()
    return DecodeError(f"more than {MOST_PARTITIONS} partitions")


def response(
    version: int,
    topics: Sequence[tuple[TopicKey, Sequence[PartitionResult]]],
    throttle_time_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
    each: Each[Any] = iter,
) -> bytes:
    """The bytes of a reply, without its header."""
    flexible = version >= FIRST_FLEXIBLE
    out = [count(len(topics), flexible)]
    for topic, results in each(topics):
        out.append(topic if isinstance(topic, bytes) else string(topic, flexible))
        out.append(count(len(results), flexible))
        for result in each(results):
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


def one_success(
    version: int,
    topic: TopicKey,
    partition: int,
    base_offset: int,
    append_time: int,
    start_offset: int,
) -> bytes:
    """What `response` says for the most frequent result: one batch, written."""
    if version >= FIRST_FLEXIBLE:
        name = topic if isinstance(topic, bytes) else string(topic, True)
        result = _FLEXIBLE_SUCCESS.pack(2, partition, 0, base_offset, append_time, start_offset, 1)
        return b"\x02" + name + result
    result = _RESULT.pack(partition, 0, base_offset, append_time, start_offset)
    if version < 5:
        result = result[: _RESULT_V3.size]
    assert isinstance(topic, str)
    name = string(topic, False)
    faultless = b"\x00\x00\x00\x00\xff\xff" if version >= 8 else b""
    return b"".join((_ONE, name, _ONE, result, faultless, _NO_THROTTLE))


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
