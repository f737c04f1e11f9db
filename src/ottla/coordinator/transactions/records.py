"""The records of `__transaction_state`, in Kafka's own formats.

A record's key names a transactional id, its value is everything that is kept about it: each record
takes the place of the one before. A record without a value forgets the id.

Rules kept here:
1. Keys have version 0; values are written as version 1, which Kafka writes from
   `transaction.version` 1 on, and read as 0 or 1.
2. Unknown tagged fields are passed over. A key or value of an unknown version is no record of
   ours: it is left alone, as Kafka does with what a newer broker left behind.
3. The last producer epoch is in no version of the format: what is read has none.
"""

from struct import Struct
from typing import ClassVar, NamedTuple

from msgspec import field

from ottla.coordinator.shard import CoordinatorRecord, UnknownRecordError
from ottla.coordinator.transactions.state import Transaction, TransactionPartition, TransactionState
from ottla.wire.codec import DecodeError, decode, encode
from ottla.wire.message import Field, Message, Part

KEY_VERSION = 0
VALUE_VERSION = 1
OLDEST_VALUE_VERSION = 0

_VERSION = Struct(">h")


class TransactionLogKey(Message, kw_only=True):
    """Version 0."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)

    transactional_id: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("transactional_id", "string", "0+"),)


class PartitionsSchema(Part, kw_only=True):
    """Part of TransactionLogValue."""

    topic: str = ""
    partition_ids: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("partition_ids", "int32", "0+", array=True),
    )


class TransactionLogValue(Message, kw_only=True):
    """Versions 0 and 1."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)
    FLEXIBLE_FROM: ClassVar[int] = 1

    producer_id: int = 0
    previous_producer_id: int = -1
    next_producer_id: int = -1
    producer_epoch: int = 0
    next_producer_epoch: int = -1
    transaction_timeout_ms: int = 0
    transaction_status: int = 0
    transaction_partitions: list[PartitionsSchema] | None = None
    transaction_last_update_timestamp_ms: int = 0
    transaction_start_timestamp_ms: int = 0
    client_transaction_version: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("producer_id", "int64", "0+"),
        Field("previous_producer_id", "int64", "1+", tag=0),
        Field("next_producer_id", "int64", "1+", tag=1),
        Field("producer_epoch", "int16", "0+"),
        Field("next_producer_epoch", "int16", "1+", tag=3),
        Field("transaction_timeout_ms", "int32", "0+"),
        Field("transaction_status", "int8", "0+"),
        Field("transaction_partitions", PartitionsSchema, "0+", array=True, nullable="0+"),
        Field("transaction_last_update_timestamp_ms", "int64", "0+"),
        Field("transaction_start_timestamp_ms", "int64", "0+"),
        Field("client_transaction_version", "int16", "1+", tag=2),
    )


class TransactionRecord(NamedTuple):
    """What a record says."""

    transactional_id: str
    transaction: Transaction | None
    """None where the id is forgotten."""


def record_of(transaction: Transaction) -> CoordinatorRecord:
    """The record that keeps a transaction."""
    # Kafka writes null where the state cannot have partitions, and an empty list elsewhere.
    partitions = None
    if transaction.state is not TransactionState.EMPTY:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(transaction.partitions):
            by_topic.setdefault(topic, []).append(partition)
        partitions = [
            PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()
        ]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_transaction_version,
    )
    return CoordinatorRecord(
        _key(transaction.transactional_id),
        _VERSION.pack(VALUE_VERSION) + encode(value, VALUE_VERSION),
        TransactionRecord(transaction.transactional_id, transaction),
    )


def tombstone_of(transactional_id: str) -> CoordinatorRecord:
    """The record that forgets a transactional id."""
    return CoordinatorRecord(
        _key(transactional_id), None, TransactionRecord(transactional_id, None)
    )


def read_record(record: CoordinatorRecord) -> TransactionRecord:
    """What a record says.

    Raises UnknownRecordError where its versions are not known, and DecodeError where the bytes are
    not what their version says.
    """
    if isinstance(record.parsed, TransactionRecord):
        return record.parsed
    key_version = _version(record.key)
    if key_version != KEY_VERSION:
        raise UnknownRecordError(f"record type {key_version}")
    transactional_id = decode(
        TransactionLogKey, KEY_VERSION, record.key, _VERSION.size
    ).transactional_id
    if record.value is None:
        return TransactionRecord(transactional_id, None)
    version = _version(record.value)
    if not OLDEST_VALUE_VERSION <= version <= VALUE_VERSION:
        raise UnknownRecordError(f"version {version} of record type {KEY_VERSION}")
    value = decode(TransactionLogValue, version, record.value, _VERSION.size)
    return TransactionRecord(transactional_id, _transaction(transactional_id, value))


def _key(transactional_id: str) -> bytes:
    key = TransactionLogKey(transactional_id=transactional_id)
    return _VERSION.pack(KEY_VERSION) + encode(key, KEY_VERSION)


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise DecodeError(f"a record of __transaction_state without a version: {data!r}")
    version: int = _VERSION.unpack_from(data)[0]
    return version


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise DecodeError(
            f"transactional id {transactional_id!r} has the state {value.transaction_status}"
        ) from None
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TransactionPartition(part.topic, partition)
            for part in value.transaction_partitions or ()
            for partition in part.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_transaction_version=value.client_transaction_version,
    )
