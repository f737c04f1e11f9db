"""The records of `__transaction_state`, against bytes that Apache Kafka 4.3.0 wrote."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.shard import CoordinatorRecord, UnknownRecordError
from ottla.coordinator.transactions.records import read_record, record_of, tombstone_of
from ottla.coordinator.transactions.state import Transaction, TransactionPartition, TransactionState
from ottla.wire.codec import DecodeError

ID = "1794830214932168273-random-3"
KEY = bytes.fromhex("0000001c") + ID.encode()

EMPTY = (
    "0001000000000000015400000000ea600000000001a1e438a681ffffffffffffffff0100080000000000000154",
    Transaction(
        transactional_id=ID,
        producer_id=340,
        previous_producer_id=340,
        producer_epoch=0,
        timeout_ms=60_000,
        last_update_ms=1794830280321,
    ),
)
ONGOING_WITH_OFFSETS = (
    "0001000000000000015400010000ea600102135f5f636f6e73756d65725f6f666673657473020000002f"
    "00000001a1e438a6b5000001a1e438a6b50100080000000000000154",
    Transaction(
        transactional_id=ID,
        producer_id=340,
        previous_producer_id=340,
        producer_epoch=1,
        timeout_ms=60_000,
        state=TransactionState.ONGOING,
        partitions=frozenset({TransactionPartition("__consumer_offsets", 47)}),
        start_ms=1794830280373,
        last_update_ms=1794830280373,
    ),
)
PREPARE_COMMIT_IN_VERSION_2 = (
    "0001000000000000015400010000ea6002020b7472616e736372697074030000000000000001"
    "00000001a1e438a68c000001a1e438a688020008000000000000015402020002",
    Transaction(
        transactional_id=ID,
        producer_id=340,
        previous_producer_id=340,
        producer_epoch=1,
        timeout_ms=60_000,
        state=TransactionState.PREPARE_COMMIT,
        partitions=frozenset(
            {TransactionPartition("transcript", 0), TransactionPartition("transcript", 1)}
        ),
        start_ms=1794830280328,
        last_update_ms=1794830280332,
        client_transaction_version=2,
    ),
)
COMPLETE_COMMIT_IN_VERSION_2 = (
    "0001000000000000015400010000ea600401000001a1e438a697000001a1e438a688"
    "020008000000000000015402020002",
    Transaction(
        transactional_id=ID,
        producer_id=340,
        previous_producer_id=340,
        producer_epoch=1,
        timeout_ms=60_000,
        state=TransactionState.COMPLETE_COMMIT,
        start_ms=1794830280328,
        last_update_ms=1794830280343,
        client_transaction_version=2,
    ),
)
KAFKA_WROTE = [
    EMPTY,
    ONGOING_WITH_OFFSETS,
    PREPARE_COMMIT_IN_VERSION_2,
    COMPLETE_COMMIT_IN_VERSION_2,
]


def read(key: bytes, value: bytes | None) -> Transaction | None:
    said = read_record(CoordinatorRecord(key, value))
    assert said is not None
    return said.transaction


@pytest.mark.parametrize(("value", "transaction"), KAFKA_WROTE)
def test_kafkas_bytes_are_read(value: str, transaction: Transaction) -> None:
    assert read(KEY, bytes.fromhex(value)) == transaction


@pytest.mark.parametrize(("value", "transaction"), KAFKA_WROTE)
def test_kafkas_bytes_are_written(value: str, transaction: Transaction) -> None:
    record = record_of(transaction)
    assert (record.key, record.value) == (KEY, bytes.fromhex(value))


def test_the_first_version_of_values_is_read() -> None:
    value = (
        pack(">hqhib", 0, 340, 1, 60_000, 2)
        + pack(">ih1sii", 1, 1, b"a", 1, 7)
        + pack(">qq", 20, 10)
    )
    assert read(KEY, value) == Transaction(
        transactional_id=ID,
        producer_id=340,
        producer_epoch=1,
        timeout_ms=60_000,
        state=TransactionState.PREPARE_COMMIT,
        partitions=frozenset({TransactionPartition("a", 7)}),
        start_ms=10,
        last_update_ms=20,
    )


def test_the_first_version_has_a_null_for_no_partitions() -> None:
    value = pack(">hqhibiqq", 0, 340, 1, 60_000, 0, -1, 20, -1)
    transaction = read(KEY, value)
    assert transaction is not None
    assert transaction.partitions == frozenset()


def test_tagged_fields_that_nobody_knows_are_passed_over() -> None:
    value, transaction = EMPTY
    more = bytes.fromhex(value).removesuffix(bytes.fromhex("0100080000000000000154"))
    more += bytes.fromhex("0200080000000000000154" + "0903616263")
    assert read(KEY, more) == transaction


def test_a_tombstone_forgets_its_id() -> None:
    record = tombstone_of(ID)
    assert (record.key, record.value) == (KEY, None)
    assert read(record.key, record.value) is None


@pytest.mark.parametrize("version", [-1, 1, 7])
def test_a_key_of_an_unknown_version_is_no_record_of_ours(version: int) -> None:
    key = pack(">h", version) + KEY[2:]
    with pytest.raises(UnknownRecordError):
        read_record(CoordinatorRecord(key, bytes.fromhex(EMPTY[0])))


@pytest.mark.parametrize("version", [-1, 2, 7])
def test_a_value_of_an_unknown_version_is_no_record_of_ours(version: int) -> None:
    value = pack(">h", version) + bytes.fromhex(EMPTY[0])[2:]
    with pytest.raises(UnknownRecordError):
        read_record(CoordinatorRecord(KEY, value))


@pytest.mark.parametrize("value", [value for value, _ in KAFKA_WROTE])
def test_bytes_that_end_too_early_are_refused(value: str) -> None:
    whole = bytes.fromhex(value)
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            read_record(CoordinatorRecord(KEY, whole[:size]))
    for size in range(len(KEY)):
        with pytest.raises(DecodeError):
            read_record(CoordinatorRecord(KEY[:size], whole))


def test_a_state_that_nobody_knows_is_refused() -> None:
    value = pack(">hqhibiqq", 0, 340, 1, 60_000, 8, -1, 20, -1)
    with pytest.raises(DecodeError, match="state 8"):
        read_record(CoordinatorRecord(KEY, value))


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
TIMES = st.integers(-1, 2**62)


@given(
    st.builds(
        Transaction,
        transactional_id=NAMES,
        producer_id=st.integers(0, 2**62),
        previous_producer_id=st.integers(-1, 2**62),
        next_producer_id=st.integers(-1, 2**62),
        producer_epoch=st.integers(0, 32767),
        timeout_ms=st.integers(1, 2**31 - 1),
        state=st.sampled_from([state for state in TransactionState if state is not state.EMPTY]),
        partitions=st.frozensets(st.builds(TransactionPartition, NAMES, st.integers(0, 2**31 - 1))),
        start_ms=TIMES,
        last_update_ms=TIMES,
        client_transaction_version=st.integers(0, 2),
    )
)
def test_what_is_written_is_read_again(transaction: Transaction) -> None:
    record = record_of(transaction)
    assert read(record.key, record.value) == transaction
