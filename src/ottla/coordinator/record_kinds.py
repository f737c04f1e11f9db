"""The records of `__consumer_offsets`: one row for each type that Kafka has and this broker knows.

Rules kept here:
1. A key's class says its number, so that writing and reading cannot disagree. Every number has
   one row, and every row one replay function.
2. A type that has no row is skipped, as Kafka does: it may be left from a newer broker, or from
   one with other kinds of groups. So is a version of a value that nobody here knows. (Kafka does
   not load the partition then; here the rest of its groups is served.) Both are counted, and the
   runtime logs them.
3. Bytes that are not what their type and version say raise DecodeError.
"""

from collections.abc import Callable, Iterable
from struct import Struct as Layout
from typing import Any, Generic, TypeVar

from msgspec import Struct

from ottla.coordinator.classic.replay import replay_classic_group
from ottla.coordinator.classic.schemas import GroupMetadataKey, GroupMetadataValue
from ottla.coordinator.consumer import replay as consumer
from ottla.coordinator.consumer.schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    without_tagged_null,
)
from ottla.coordinator.group import GroupType
from ottla.coordinator.group_state import GroupState
from ottla.coordinator.offsets.records import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.coordinator.offsets.replay import replay_offset
from ottla.coordinator.record_codec import ParsedRecord
from ottla.coordinator.record_keys import RecordKey
from ottla.coordinator.shard import CoordinatorRecord, UnknownRecordError
from ottla.coordinator.share import replay as share
from ottla.coordinator.share.schemas import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from ottla.coordinator.streams import replay as streams
from ottla.coordinator.streams.schemas import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from ottla.wire.codec import DecodeError, decode
from ottla.wire.message import Message

K = TypeVar("K", bound=RecordKey)
V = TypeVar("V", bound=Message)

_SHORT = Layout(">h")


class RecordKind(Struct, Generic[K, V], frozen=True):
    """One type of record."""

    key: type[K]
    value: type[V]
    owner: GroupType | None
    """The kind of group that it belongs to; None for offsets, which several kinds have."""
    replay: Callable[[GroupState, K, V | None, int], None]
    """Applies a record: key, value (None deletes), and the id of the producer in whose
    transaction it was written (-1: none)."""
    cleaned: Callable[[bytes], bytes] = bytes
    """Makes a value's bytes readable, where Kafka writes something that the codec cannot read."""

    @property
    def number(self) -> int:
        """Kafka's number for it."""
        return self.key.RECORD_TYPE


def _by_number(kinds: Iterable[RecordKind[Any, Any]]) -> dict[int, RecordKind[Any, Any]]:
    table: dict[int, RecordKind[Any, Any]] = {}
    for kind in kinds:
        if kind.number in table:
            raise ValueError(f"record type {kind.number} has two rows")
        table[kind.number] = kind
    return table


RECORD_KINDS = _by_number(
    (
        RecordKind(LegacyOffsetCommitKey, OffsetCommitValue, None, replay_offset),
        RecordKind(OffsetCommitKey, OffsetCommitValue, None, replay_offset),
        RecordKind(GroupMetadataKey, GroupMetadataValue, GroupType.CLASSIC, replay_classic_group),
        RecordKind(
            ConsumerGroupMetadataKey,
            ConsumerGroupMetadataValue,
            GroupType.CONSUMER,
            consumer.replay_epoch,
        ),
        RecordKind(
            ConsumerGroupPartitionMetadataKey,
            ConsumerGroupPartitionMetadataValue,
            GroupType.CONSUMER,
            consumer.replay_topics,
        ),
        RecordKind(
            ConsumerGroupMemberMetadataKey,
            ConsumerGroupMemberMetadataValue,
            GroupType.CONSUMER,
            consumer.replay_member,
            without_tagged_null,
        ),
        RecordKind(
            ConsumerGroupTargetAssignmentMetadataKey,
            ConsumerGroupTargetAssignmentMetadataValue,
            GroupType.CONSUMER,
            consumer.replay_target_epoch,
        ),
        RecordKind(
            ConsumerGroupTargetAssignmentMemberKey,
            ConsumerGroupTargetAssignmentMemberValue,
            GroupType.CONSUMER,
            consumer.replay_target,
        ),
        RecordKind(
            ConsumerGroupCurrentMemberAssignmentKey,
            ConsumerGroupCurrentMemberAssignmentValue,
            GroupType.CONSUMER,
            consumer.replay_current,
        ),
        RecordKind(
            ConsumerGroupRegularExpressionKey,
            ConsumerGroupRegularExpressionValue,
            GroupType.CONSUMER,
            consumer.replay_regex,
        ),
        RecordKind(
            ShareGroupMemberMetadataKey,
            ShareGroupMemberMetadataValue,
            GroupType.SHARE,
            share.replay_member,
        ),
        RecordKind(
            ShareGroupMetadataKey,
            ShareGroupMetadataValue,
            GroupType.SHARE,
            share.replay_epoch,
        ),
        RecordKind(
            ShareGroupTargetAssignmentMetadataKey,
            ShareGroupTargetAssignmentMetadataValue,
            GroupType.SHARE,
            share.replay_target_epoch,
        ),
        RecordKind(
            ShareGroupTargetAssignmentMemberKey,
            ShareGroupTargetAssignmentMemberValue,
            GroupType.SHARE,
            share.replay_target,
        ),
        RecordKind(
            ShareGroupCurrentMemberAssignmentKey,
            ShareGroupCurrentMemberAssignmentValue,
            GroupType.SHARE,
            share.replay_current,
        ),
        RecordKind(
            ShareGroupStatePartitionMetadataKey,
            ShareGroupStatePartitionMetadataValue,
            GroupType.SHARE,
            share.replay_partitions,
        ),
        RecordKind(
            StreamsGroupMetadataKey,
            StreamsGroupMetadataValue,
            GroupType.STREAMS,
            streams.replay_epoch,
        ),
        RecordKind(
            StreamsGroupMemberMetadataKey,
            StreamsGroupMemberMetadataValue,
            GroupType.STREAMS,
            streams.replay_member,
        ),
        RecordKind(
            StreamsGroupTargetAssignmentMetadataKey,
            StreamsGroupTargetAssignmentMetadataValue,
            GroupType.STREAMS,
            streams.replay_target_epoch,
        ),
        RecordKind(
            StreamsGroupTargetAssignmentMemberKey,
            StreamsGroupTargetAssignmentMemberValue,
            GroupType.STREAMS,
            streams.replay_target,
        ),
        RecordKind(
            StreamsGroupCurrentMemberAssignmentKey,
            StreamsGroupCurrentMemberAssignmentValue,
            GroupType.STREAMS,
            streams.replay_current,
        ),
        RecordKind(
            StreamsGroupTopologyKey,
            StreamsGroupTopologyValue,
            GroupType.STREAMS,
            streams.replay_topology,
        ),
    )
)


def read_record(record: CoordinatorRecord) -> ParsedRecord:
    """What a record says; raises UnknownRecordError and DecodeError."""
    if isinstance(record.parsed, ParsedRecord):
        return record.parsed
    number = _short(record.key)
    kind = RECORD_KINDS.get(number)
    if kind is None:
        raise UnknownRecordError(f"record type {number}")
    key = decode(kind.key, 0, record.key, _SHORT.size)
    if record.value is None:
        return ParsedRecord(key, None)
    version = _short(record.value)
    if not kind.value.VERSIONS[0] <= version <= kind.value.VERSIONS[1]:
        raise UnknownRecordError(f"version {version} of record type {number}")
    return ParsedRecord(key, decode(kind.value, version, kind.cleaned(record.value), _SHORT.size))


def replay(state: GroupState, parsed: ParsedRecord, producer_id: int) -> None:
    """Apply one record."""
    RECORD_KINDS[parsed.key.RECORD_TYPE].replay(state, parsed.key, parsed.value, producer_id)


def _short(data: bytes) -> int:
    if len(data) < _SHORT.size:
        raise DecodeError(f"a record of __consumer_offsets that ends before its type: {data!r}")
    number: int = _SHORT.unpack_from(data)[0]
    return number
