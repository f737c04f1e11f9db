"""The records of `__share_group_state`, in Kafka's formats.

Rules kept here:
1. Type 0, ShareSnapshot, is the whole state of a share partition; without a value it deletes it.
   Type 1, ShareUpdate, is a change of it: all updates since the last snapshot count, not only the
   last one.
2. Keys are never flexible; values are version 0, and always flexible.
"""

from struct import Struct as Layout
from typing import ClassVar, NamedTuple
from uuid import UUID

from msgspec import field

from ottla.coordinator.shard import CoordinatorRecord, UnknownRecordError
from ottla.coordinator.share_state.batches import StateBatch
from ottla.wire.codec import DecodeError, decode, encode
from ottla.wire.message import NO_UUID, Field, Message, Part

SNAPSHOT = 0
UPDATE = 1
_SHORT = Layout(">h")
_VERSION = _SHORT.pack(0)


class SharePartitionKey(NamedTuple):
    """A partition of a topic, as a share group reads it."""

    group_id: str
    topic_id: UUID
    partition: int


class StateKey(Message, kw_only=True):
    """The key of both types."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)

    group_id: str = ""
    topic_id: UUID = NO_UUID
    partition: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
    )


class BatchPart(Part, kw_only=True):
    """Part of ShareSnapshotValue and ShareUpdateValue."""

    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("first_offset", "int64", "0+"),
        Field("last_offset", "int64", "0+"),
        Field("delivery_state", "int8", "0+"),
        Field("delivery_count", "int16", "0+"),
    )


class ShareSnapshotValue(Message, kw_only=True):
    """The whole state of a share partition."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1
    create_timestamp: int = 0
    write_timestamp: int = 0
    state_batches: list[BatchPart] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("snapshot_epoch", "int32", "0+"),
        Field("state_epoch", "int32", "0+"),
        Field("leader_epoch", "int32", "0+"),
        Field("start_offset", "int64", "0+"),
        Field("delivery_complete_count", "int32", "0+", tag=0),
        Field("create_timestamp", "int64", "0+"),
        Field("write_timestamp", "int64", "0+"),
        Field("state_batches", BatchPart, "0+", array=True),
    )


class ShareUpdateValue(Message, kw_only=True):
    """A change of a share partition's state since its last snapshot."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    snapshot_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1
    state_batches: list[BatchPart] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("snapshot_epoch", "int32", "0+"),
        Field("leader_epoch", "int32", "0+"),
        Field("start_offset", "int64", "0+"),
        Field("delivery_complete_count", "int32", "0+", tag=0),
        Field("state_batches", BatchPart, "0+", array=True),
    )


Parsed = tuple[SharePartitionKey, int, ShareSnapshotValue | ShareUpdateValue | None]
_VALUES: dict[int, type[ShareSnapshotValue] | type[ShareUpdateValue]] = {
    SNAPSHOT: ShareSnapshotValue,
    UPDATE: ShareUpdateValue,
}


def write_record(
    key: SharePartitionKey, value: ShareSnapshotValue | ShareUpdateValue
) -> CoordinatorRecord:
    """The record that keeps a snapshot or an update."""
    number = SNAPSHOT if isinstance(value, ShareSnapshotValue) else UPDATE
    return CoordinatorRecord(_key(number, key), _VERSION + encode(value, 0))


def write_tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    """The record that deletes a share partition's state."""
    return CoordinatorRecord(_key(SNAPSHOT, key), None)


def read_record(record: CoordinatorRecord) -> Parsed:
    """What a record says; raises UnknownRecordError and DecodeError."""
    number = _short(record.key)
    kind = _VALUES.get(number)
    if kind is None:
        raise UnknownRecordError(f"record type {number}")
    key = decode(StateKey, 0, record.key, _SHORT.size)
    named = SharePartitionKey(key.group_id, key.topic_id, key.partition)
    if record.value is None:
        return named, number, None
    version = _short(record.value)
    if version:
        raise UnknownRecordError(f"version {version} of record type {number}")
    return named, number, decode(kind, 0, record.value, _SHORT.size)


def parts(batches: tuple[StateBatch, ...]) -> list[BatchPart]:
    """Batches as records have them."""
    return [
        BatchPart(
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            delivery_state=batch.delivery_state,
            delivery_count=batch.delivery_count,
        )
        for batch in batches
    ]


def _key(number: int, key: SharePartitionKey) -> bytes:
    named = StateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return _SHORT.pack(number) + encode(named, 0)


def _short(data: bytes) -> int:
    if len(data) < _SHORT.size:
        raise DecodeError(f"a record of __share_group_state that ends before its type: {data!r}")
    number: int = _SHORT.unpack_from(data)[0]
    return number
