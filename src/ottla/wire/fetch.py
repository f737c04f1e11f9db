"""Fetch (api key 1), versions 4 to 18, by hand: records go from file to socket without a copy.

Rules kept here:
1. A request is read whole before anything of it is acted on.
2. A reply is a list of parts: bytes, and stretches of files that the server sends.
3. A topic is named by a string up to version 12 and by its id from 13 on.
4. A request names at most MOST_PARTITIONS, and as many that are forgotten.
5. A thread that reads or writes much counts the partitions with an iterator that pauses (`each`).
"""

from collections.abc import Sequence
from struct import Struct, error
from typing import Any, NamedTuple, Protocol

from ottla.wire.fields import (
    INT32,
    MOST_TAGS,
    DecodeError,
    count,
    read_count,
    read_string,
    read_topic_id,
    read_uvarint,
    skip_tags,
    string,
    uvarint,
)
from ottla.wire.produce import Each, NodeEndpoint, TopicKey, endpoint_tag

FIRST_VERSION = 4
LAST_VERSION = 18
FIRST_FLEXIBLE = 12
FIRST_WITH_TOPIC_IDS = 13
MOST_PARTITIONS = 20_000

READ_COMMITTED = 1
FINAL_EPOCH = -1
"""Session epoch of a fetch that wants no session, or that ends the one it names."""
INITIAL_EPOCH = 0
"""Session epoch of a fetch that asks for a new session."""

_REPLICA = INT32
_LIMITS = Struct(">iiib")
_SESSION = Struct(">ii")
_PARTITION_V4 = Struct(">iqi")
_PARTITION_V5 = Struct(">iqqi")
_PARTITION_V9 = Struct(">iiqqi")
_PARTITION_V12 = Struct(">iiqiqi")
_REPLICA_STATE = Struct(">iq")

_REPLY_HEAD = Struct(">ihi")
_RESULT_V4 = Struct(">ihqq")
_RESULT_V5 = Struct(">ihqqq")
_ABORTED = Struct(">qq")
_EPOCH_END = Struct(">BBiqB")
_LEADER = Struct(">BBiiB")


class FetchPartition(NamedTuple):
    """What is wanted of one partition."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class FetchRequest(NamedTuple):
    """What a consumer or a follower asks."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[TopicKey, list[FetchPartition]]]
    forgotten: list[tuple[TopicKey, list[int]]]
    rack_id: str
    cluster_id: str | None


class FileSlice(Protocol):
    """A stretch of a file that goes into a reply."""

    @property
    def size(self) -> int:
        """Bytes of the stretch."""


class PartitionData(NamedTuple):
    """What one partition answers."""

    partition: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    """Producer id and first offset of each aborted transaction; None where it was not asked."""
    records: FileSlice | bytes | None = None
    diverging: tuple[int, int] | None = None
    """Epoch and end offset up to which a reader's log agrees with this one."""
    leader: tuple[int, int] | None = None
    """Id and epoch of the present leader, for a client that came to the wrong broker (KIP-951)."""
    preferred_read_replica: int = -1

    @property
    def size(self) -> int:
        """Bytes of records."""
        records = self.records
        if records is None:
            return 0
        return len(records) if isinstance(records, bytes) else records.size


def read_request(view: memoryview, at: int, version: int, each: Each[int] = iter) -> FetchRequest:
    """Read a whole request; raises DecodeError where it is malformed."""
    try:
        return _read_request(view, at, version, each)
    except (error, IndexError, UnicodeDecodeError) as problem:
        raise DecodeError(f"a malformed Fetch request: {problem}") from None


def _read_request(view: memoryview, at: int, version: int, each: Each[int]) -> FetchRequest:
    flexible = version >= FIRST_FLEXIBLE
    replica_id = -1
    replica_epoch = -1
    cluster_id = None
    if version < 15:
        (replica_id,) = _REPLICA.unpack_from(view, at)
        at += 4
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(view, at)
    at += 13
    session_id, session_epoch = 0, FINAL_EPOCH
    if version >= 7:
        session_id, session_epoch = _SESSION.unpack_from(view, at)
        at += 8
    topic_count, at = read_count(view, at, flexible, 3)
    topics: list[tuple[TopicKey, list[FetchPartition]]] = []
    left = MOST_PARTITIONS
    for _ in each(range(topic_count)):
        topic, at = _read_topic(view, at, version)
        partition_count, at = read_count(view, at, flexible, 16)
        left -= partition_count or 1
        if left < 0:
            raise _too_many()
        partitions: list[FetchPartition] = []
        for _ in each(range(partition_count)):
            partition, at = _read_partition(view, at, version)
            partitions.append(partition)
        if flexible:
            at = skip_tags(view, at)
        topics.append((topic, partitions))
    forgotten: list[tuple[TopicKey, list[int]]] = []
    if version >= 7:
        forgotten_count, at = read_count(view, at, flexible, 3)
        left = MOST_PARTITIONS
        for _ in each(range(forgotten_count)):
            topic, at = _read_topic(view, at, version)
            index_count, at = read_count(view, at, flexible, 4)
            left -= index_count or 1
            if left < 0:
                raise _too_many()
            forgotten.append((topic, list(Struct(f">{index_count}i").unpack_from(view, at))))
            at += 4 * index_count
            if flexible:
                at = skip_tags(view, at)
    rack: str | None = ""
    if version >= 11:
        rack, at = read_string(view, at, flexible)
    if rack is None:
        raise DecodeError("a Fetch request with a null rack")
    if flexible and view[at]:
        tag_count, at = read_uvarint(view, at)
        if tag_count > MOST_TAGS:
            raise DecodeError(f"{tag_count} tagged fields")
        for _ in range(tag_count):
            tag, at = read_uvarint(view, at)
            size, at = read_uvarint(view, at)
            if at + size > len(view):
                raise DecodeError("a tagged field passes the end of its message")
            if tag == 0:
                cluster_id, _ = read_string(view[: at + size], at, True)
            elif tag == 1 and version >= 15:
                replica_id, replica_epoch = _REPLICA_STATE.unpack_from(view, at)
            at += size
    return FetchRequest(
        replica_id,
        replica_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack,
        cluster_id,
    )


def _too_many() -> DecodeError:
    return DecodeError(f"a Fetch request for more than {MOST_PARTITIONS} partitions")


def _read_topic(view: memoryview, at: int, version: int) -> tuple[TopicKey, int]:
    if version >= FIRST_WITH_TOPIC_IDS:
        return read_topic_id(view, at)
    name, at = read_string(view, at, version >= FIRST_FLEXIBLE)
    if name is None:
        raise DecodeError("a Fetch request with a null topic name")
    return name, at


def _read_partition(view: memoryview, at: int, version: int) -> tuple[FetchPartition, int]:
    if version >= 12:
        partition = FetchPartition._make(_PARTITION_V12.unpack_from(view, at))
        return partition, skip_tags(view, at + 32)
    if version >= 9:
        index, epoch, offset, start, size = _PARTITION_V9.unpack_from(view, at)
        return FetchPartition(index, epoch, offset, -1, start, size), at + 28
    if version >= 5:
        index, offset, start, size = _PARTITION_V5.unpack_from(view, at)
        return FetchPartition(index, -1, offset, -1, start, size), at + 24
    index, offset, size = _PARTITION_V4.unpack_from(view, at)
    return FetchPartition(index, -1, offset, -1, -1, size), at + 16


def response(
    version: int,
    topics: Sequence[tuple[TopicKey, Sequence[PartitionData]]],
    *,
    error_code: int = 0,
    session_id: int = 0,
    throttle_time_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
    each: Each[Any] = iter,
) -> list[bytes | FileSlice]:
    """The parts of a reply, without its header; neighbouring bytes are joined into one part."""
    flexible = version >= FIRST_FLEXIBLE
    parts: list[bytes | FileSlice] = []
    if version >= 7:
        out = [_REPLY_HEAD.pack(throttle_time_ms, error_code, session_id)]
    else:
        out = [INT32.pack(throttle_time_ms)]
    out.append(count(len(topics), flexible))
    for topic, results in each(topics):
        out.append(topic if isinstance(topic, bytes) else string(topic, flexible))
        out.append(count(len(results), flexible))
        for data in each(results):
            out.append(
                (_RESULT_V5 if version >= 5 else _RESULT_V4).pack(*data[: 5 if version >= 5 else 4])
            )
            aborted = data.aborted
            if aborted is None:
                out.append(b"\x00" if flexible else b"\xff\xff\xff\xff")
            else:
                out.append(count(len(aborted), flexible))
                for entry in aborted:
                    out.append(_ABORTED.pack(*entry))
                    if flexible:
                        out.append(b"\x00")
            if version >= 11:
                out.append(INT32.pack(data.preferred_read_replica))
            records, size = data.records, data.size
            out.append(uvarint(size + 1) if flexible else INT32.pack(size))
            if records is not None:
                parts.append(b"".join(out))
                parts.append(records)
                out = []
            if flexible:
                out.append(_partition_tags(data))
        if flexible:
            out.append(b"\x00")
    if flexible:
        out.append(endpoint_tag(endpoints) if version >= 16 else b"\x00")
    if out:
        parts.append(b"".join(out))
    return parts


def _partition_tags(data: PartitionData) -> bytes:
    if data.diverging is None and data.leader is None:
        return b"\x00"
    tags = b""
    if data.diverging is not None:
        tags += _EPOCH_END.pack(0, 13, *data.diverging, 0)
    if data.leader is not None:
        tags += _LEADER.pack(1, 9, *data.leader, 0)
    return uvarint(bool(data.diverging) + bool(data.leader)) + tags
