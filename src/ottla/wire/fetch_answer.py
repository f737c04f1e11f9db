"""What a follower reads of a Fetch response (version 13 and later), with the records left in place.

Rules kept here:
1. The records, which are nearly all of an answer, are not copied: they are views of the memory that
   the answer was received in, for as long as that is not used again.
2. Bytes that are not a Fetch response raise DecodeError, and nothing else.
"""

from struct import Struct, error
from typing import NamedTuple

from ottla.wire.fields import DecodeError, read_count, read_topic_id, read_uvarint, skip_tags

_HEAD = Struct(">ihi")
_PARTITION = Struct(">ihqqq")
_PREFERRED_READ_REPLICA = 4
_EPOCH_END = Struct(">iq")
_NOT_TOLD = (-1, -1)
_ABORTED = 16
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


class FetchAnswer(NamedTuple):
    """An answer, by the 16 bytes of each topic's id."""

    error_code: int
    session_id: int
    topics: list[tuple[bytes, list[PartitionAnswer]]]


def read_answer(view: memoryview, at: int) -> FetchAnswer:
    """Read a whole answer; raises DecodeError where it is malformed."""
    try:
        return _read_answer(view, at)
    except (error, IndexError) as problem:
        raise DecodeError(f"a malformed Fetch response: {problem}") from None


def _read_answer(view: memoryview, at: int) -> FetchAnswer:
    _, error_code, session_id = _HEAD.unpack_from(view, at)
    at += _HEAD.size
    topic_count, at = read_count(view, at, True, 18)
    topics: list[tuple[bytes, list[PartitionAnswer]]] = []
    for _ in range(topic_count):
        topic, at = read_topic_id(view, at)
        partition_count, at = read_count(view, at, True, 36)
        partitions: list[PartitionAnswer] = []
        for _ in range(partition_count):
            partition, at = _read_partition(view, at)
            partitions.append(partition)
        at = skip_tags(view, at)
        topics.append((topic, partitions))
    skip_tags(view, at)
    return FetchAnswer(error_code, session_id, topics)


def _read_partition(view: memoryview, at: int) -> tuple[PartitionAnswer, int]:
    index, error_code, high_watermark, _, log_start = _PARTITION.unpack_from(view, at)
    at += _PARTITION.size
    aborted, at = read_count(view, at, True, _ABORTED + 1)
    for _ in range(aborted):
        at = skip_tags(view, at + _ABORTED)
    size, at = read_uvarint(view, at + _PREFERRED_READ_REPLICA)
    start, at = at, at + max(size - 1, 0)
    if at > len(view):
        raise DecodeError(f"records of {size - 1} bytes with {len(view) - start} left")
    records = view[start:at]
    tags, at = read_uvarint(view, at)
    diverging: tuple[int, int] | None = None
    for _ in range(tags):
        tag, at = read_uvarint(view, at)
        size, at = read_uvarint(view, at)
        if at + size > len(view):
            raise DecodeError("a tagged field passes the end of its message")
        if tag == _DIVERGING_EPOCH:
            epoch, end_offset = _EPOCH_END.unpack_from(view[: at + size], at)
            diverging = None if (epoch, end_offset) == _NOT_TOLD else (epoch, end_offset)
        at += size
    answer = PartitionAnswer(index, error_code, high_watermark, log_start, diverging, records)
    return answer, at
