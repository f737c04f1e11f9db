"""The reader of Fetch responses, for followers and for clients, with the records left in place.

Rules kept here:
1. The records, which are nearly all of an answer, are not copied: they are views of the memory that
   the answer was received in, for as long as that is not used again.
2. Bytes that are not a Fetch response raise DecodeError, and nothing else.
"""

from struct import Struct, error
from typing import NamedTuple

from ottla.wire.fetch import FIRST_FLEXIBLE, FIRST_WITH_TOPIC_IDS
from ottla.wire.fields import (
    INT32,
    DecodeError,
    read_count,
    read_string,
    read_topic_id,
    read_uvarint,
    skip_tags,
)
from ottla.wire.produce import TopicKey

_HEAD = Struct(">ihi")
_THROTTLE_TIME = 4
_PARTITION = Struct(">ihqqq")
_PARTITION_V4 = Struct(">ihqq")
_PREFERRED_READ_REPLICA = 4
_EPOCH_END = Struct(">iq")
_NOT_TOLD = (-1, -1)
_ABORTED = Struct(">qq")
_DIVERGING_EPOCH = 0
"""The tag of the field that says where two logs part."""


class PartitionAnswer(NamedTuple):
    """What a leader answers for one partition."""

    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    diverging: tuple[int, int] | None
    """Epoch and end offset up to which the follower's log agrees with the leader's."""
    records: memoryview
    last_stable_offset: int = -1
    aborted: tuple[tuple[int, int], ...] = ()
    """Producer id and first offset of each aborted transaction."""


class FetchAnswer(NamedTuple):
    """An answer, by the 16 bytes of each topic's id; before version 13, by its name."""

    error_code: int
    session_id: int
    topics: list[tuple[TopicKey, list[PartitionAnswer]]]


def read_answer(view: memoryview, at: int, version: int) -> FetchAnswer:
    """Read a whole answer; raises DecodeError where it is malformed."""
    try:
        return _read_answer(view, at, version)
    except (error, IndexError, UnicodeDecodeError) as problem:
        raise DecodeError(f"a malformed Fetch response: {problem}") from None


def _read_answer(view: memoryview, at: int, version: int) -> FetchAnswer:
    flexible = version >= FIRST_FLEXIBLE
    error_code = session_id = 0
    if version >= 7:
        _, error_code, session_id = _HEAD.unpack_from(view, at)
        at += _HEAD.size
    else:
        at += _THROTTLE_TIME
    topic_count, at = read_count(view, at, flexible, 3)
    topics: list[tuple[TopicKey, list[PartitionAnswer]]] = []
    for _ in range(topic_count):
        topic: TopicKey
        if version >= FIRST_WITH_TOPIC_IDS:
            topic, at = read_topic_id(view, at)
        else:
            name, at = read_string(view, at, flexible)
            topic = name or ""
        partition_count, at = read_count(view, at, flexible, _PARTITION_V4.size)
        partitions: list[PartitionAnswer] = []
        for _ in range(partition_count):
            partition, at = _read_partition(view, at, version, flexible)
            partitions.append(partition)
        if flexible:
            at = skip_tags(view, at)
        topics.append((topic, partitions))
    if flexible:
        skip_tags(view, at)
    return FetchAnswer(error_code, session_id, topics)


def _read_partition(
    view: memoryview, at: int, version: int, flexible: bool
) -> tuple[PartitionAnswer, int]:
    log_start = -1
    if version >= 5:
        index, error_code, high_watermark, stable, log_start = _PARTITION.unpack_from(view, at)
        at += _PARTITION.size
    else:
        index, error_code, high_watermark, stable = _PARTITION_V4.unpack_from(view, at)
        at += _PARTITION_V4.size
    aborted_count, at = read_count(view, at, flexible, _ABORTED.size)
    aborted: list[tuple[int, int]] = []
    for _ in range(aborted_count):
        aborted.append(_ABORTED.unpack_from(view, at))
        at += _ABORTED.size
        if flexible:
            at = skip_tags(view, at)
    if version >= 11:
        at += _PREFERRED_READ_REPLICA
    if flexible:
        size, at = read_uvarint(view, at)
        size -= 1
    else:
        (size,) = INT32.unpack_from(view, at)
        at += INT32.size
    start, at = at, at + max(size, 0)
    if at > len(view):
        raise DecodeError(f"records of {size} bytes with {len(view) - start} left")
    diverging: tuple[int, int] | None = None
    end = at
    if flexible:
        diverging, at = _read_diverging_epoch(view, at)
    answer = PartitionAnswer(
        index,
        error_code,
        high_watermark,
        log_start,
        diverging,
        view[start:end],
        stable,
        tuple(aborted),
    )
    return answer, at


def _read_diverging_epoch(view: memoryview, at: int) -> tuple[tuple[int, int] | None, int]:
    """The one tagged field that matters here; the others are passed over."""
    diverging: tuple[int, int] | None = None
    tags, at = read_uvarint(view, at)
    for _ in range(tags):
        tag, at = read_uvarint(view, at)
        size, at = read_uvarint(view, at)
        if at + size > len(view):
            raise DecodeError("a tagged field passes the end of its message")
        if tag == _DIVERGING_EPOCH:
            epoch, end_offset = _EPOCH_END.unpack_from(view[: at + size], at)
            diverging = None if (epoch, end_offset) == _NOT_TOLD else (epoch, end_offset)
        at += size
    return diverging, at
