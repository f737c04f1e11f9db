"""Record batches to Arrow columns, on both kernels."""

from datetime import UTC, datetime

import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records import Codec, Record, encode_batch
from ottla.records.columns import RecordColumns
from ottla.records.control import Marker, MarkerType, encode_marker
from ottla.records.kernel import PURE, Kernel
from ottla.wire.batch import HEADER_SIZE
from ottla.wire.errors import KafkaError

from .kernels import KERNELS, NOW, agreed, exact, on_each_kernel, outcome, record_lists

ALL = 2**63 - 1
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows_of(batch: pa.RecordBatch) -> list[tuple[object, ...]]:
    batch.validate(full=True)
    return [tuple(row.values()) for row in batch.cast(raw_times(batch.schema)).to_pylist()]


def raw_times(schema: pa.Schema) -> pa.Schema:
    """Timestamps as plain microseconds: Python's datetimes reach less far."""
    at = schema.get_field_index("timestamp")
    return schema.set(at, pa.field("timestamp", pa.int64()))


def expected(records: list[Record], kind: int = 0) -> list[tuple[object, ...]]:
    return [
        (
            record.key,
            record.value,
            record.offset,
            record.timestamp * 1000,
            kind,
            [{"key": key, "value": value} for key, value in record.headers] or None,
        )
        for record in records
    ]


@on_each_kernel
@settings(deadline=None)
@given(
    lists=st.lists(record_lists(), max_size=4),
    codec=st.sampled_from(Codec),
    first=st.integers(0, 2**40),
    size=st.integers(0, 2**40),
)
def test_records_become_rows(
    kernel: Kernel, lists: list[list[Record]], codec: Codec, first: int, size: int
) -> None:
    columns = RecordColumns(headers=True, kernel=kernel)
    batches = b"".join(
        encode_batch(records, codec=codec, base_offset=records[0].offset) for records in lists
    )
    after = columns.add(batches, first, first + size)
    kept = [item for records in lists for item in records if first <= item.offset < first + size]
    assert len(columns) == len(kept)
    assert columns.nbytes == sum(
        len(part or b"")
        for record in kept
        for part in (
            record.key,
            record.value,
            *(item for key, value in record.headers for item in (key.encode(), value)),
        )
    )
    assert rows_of(columns.take()) == expected(kept)
    assert after == max([first, *(records[-1].offset + 1 for records in lists)])
    assert (len(columns), columns.nbytes) == (0, 0)


@on_each_kernel
def test_the_schema_is_that_of_sparks_kafka_source(kernel: Kernel) -> None:
    fields = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
    for batches in (b"", encode_batch([Record(0, NOW, None, b"v", [("h", None)])])):
        columns = RecordColumns(kernel=kernel)
        columns.add(batches, 0, ALL)
        assert columns.take().schema == pa.schema(fields)
        columns = RecordColumns(headers=True, kernel=kernel)
        columns.add(batches, 0, ALL)
        assert columns.take().schema == pa.schema([*fields, ("headers", HEADERS)])


@on_each_kernel
def test_times_are_those_of_the_producer_or_of_the_broker(kernel: Kernel) -> None:
    columns = RecordColumns(kernel=kernel)
    columns.add(encode_batch([Record(0, NOW, None, None)]), 0, ALL)
    columns.add(encode_batch([Record(1, NOW, None, None)], append_time=NOW + 5), 0, ALL)
    rows = columns.take().to_pylist()
    assert [row["timestampType"] for row in rows] == [0, 1]
    assert [row["timestamp"] for row in rows] == [
        datetime.fromtimestamp(NOW / 1000, UTC),
        datetime.fromtimestamp((NOW + 5) / 1000, UTC),
    ]


@on_each_kernel
def test_times_past_what_microseconds_can_say_are_the_furthest(kernel: Kernel) -> None:
    columns = RecordColumns(kernel=kernel)
    for offset, timestamp in enumerate((2**63 - 1, -(2**63), -1)):
        batch = encode_batch([Record(offset, timestamp, None, None)], base_offset=offset)
        columns.add(batch, 0, ALL)
    times = columns.take().column("timestamp").cast(pa.int64()).to_pylist()
    assert times == [2**63 - 1, -(2**63), -1000]


@on_each_kernel
def test_many_rounds_give_each_row_once(kernel: Kernel) -> None:
    columns = RecordColumns(headers=True, kernel=kernel)
    every: list[Record] = []
    taken = []
    for round_number in range(40):
        for _ in range(round_number % 7):
            base = len(every)
            records = [
                Record(base + at, NOW, b"k" * (at % 5) or None, b"v" * at, [("h", b"x")] * (at % 3))
                for at in range(round_number * 3 + 1)
            ]
            columns.add(encode_batch(records, base_offset=base), 0, ALL)
            every += records
        taken.append(columns.take())
    assert [row for batch in taken for row in rows_of(batch)] == expected(every)


@on_each_kernel
def test_control_batches_have_no_rows(kernel: Kernel) -> None:
    columns = RecordColumns(kernel=kernel)
    marker = encode_marker(Marker(MarkerType.COMMIT, 0, 1, 2), NOW, base_offset=7)
    assert columns.add(marker, 0, ALL) == 8
    assert len(columns) == 0


@on_each_kernel
def test_a_torn_last_batch_is_left_for_the_next_fetch(kernel: Kernel) -> None:
    whole = encode_batch([Record(0, NOW, b"a", b"b")])
    torn = encode_batch([Record(1, NOW, b"c", b"d")], base_offset=1)
    for size in range(len(torn)):
        columns = RecordColumns(kernel=kernel)
        assert columns.add(whole + torn[:size], 0, ALL) == 1
        assert len(columns) == 1


@on_each_kernel
def test_header_keys_that_are_not_text_are_replaced_as_java_does(kernel: Kernel) -> None:
    raw = [b"plain", b"\xff\xfe", b"caf\xc3\xa9", b"\xed\xa0\x80", b"\xe2\x82"]
    names = [name.decode("utf-8", "surrogateescape") for name in raw]
    columns = RecordColumns(headers=True, kernel=kernel)
    columns.add(encode_batch([Record(0, NOW, None, None, [(n, b"") for n in names])]), 0, ALL)
    batch = columns.take()
    batch.validate(full=True)
    found = [header["key"] for header in batch.column("headers").to_pylist()[0]]
    assert found == ["plain", "��", "café", "���", "�"]


@on_each_kernel
def test_batches_outside_the_wanted_offsets_are_not_read(kernel: Kernel) -> None:
    broken = bytearray(encode_batch([Record(5, NOW, None, b"x")], base_offset=5))
    broken[-1] ^= 1
    columns = RecordColumns(kernel=kernel)
    assert columns.add(broken, 0, 5) == 6
    assert columns.add(broken, 6, 9) == 6
    with pytest.raises(KafkaError, match="batch at offset 5 has an invalid CRC"):
        columns.add(broken, 5, 6)


@on_each_kernel
def test_a_column_grows_no_further_than_its_offsets_can_say(kernel: Kernel) -> None:
    gathering = kernel.gathering(True, 100)

    def add(offset: int, record: Record) -> None:
        body = PURE.encode_records([record], 0, 0)
        gathering.add(body, 1, offset, 0, None, 0, ALL)

    add(0, Record(0, 0, bytes(60), bytes(60), [("k" * 60, bytes(60))]))
    too_much = [
        Record(0, 0, bytes(41), None),
        Record(0, 0, None, bytes(41)),
        Record(0, 0, None, None, [("k" * 41, None)]),
        Record(0, 0, None, None, [("", bytes(41))]),
    ]
    for record in too_much:
        with pytest.raises(OverflowError, match="more than 100 bytes"):
            add(1, record)
        assert (gathering.rows, gathering.nbytes) == (1, 240)
    add(1, Record(0, 0, bytes(40), bytes(40), [("k" * 40, bytes(40))]))
    assert (gathering.rows, gathering.nbytes) == (2, 400)
    taken = gathering.take()
    assert taken.headers is not None
    assert (taken.rows, taken.headers.entries) == (2, 2)


def gathered_from(kernel: Kernel, batches: bytes) -> object:
    columns = RecordColumns(headers=True, kernel=kernel)
    columns.add(encode_batch([Record(1, NOW, b"before", None)], base_offset=1), 0, ALL)
    after = outcome(lambda: columns.add(exact(batches), 0, ALL))
    size = (len(columns), columns.nbytes)
    columns.add(encode_batch([Record(9, NOW, None, b"after", [("h", b"")])], base_offset=9), 0, ALL)
    return after, size, rows_of(columns.take())


@settings(max_examples=500, deadline=None)
@given(
    codec=st.sampled_from(Codec),
    lists=st.lists(record_lists(), min_size=1, max_size=3),
    changes=st.lists(st.tuples(st.integers(0, 10**4), st.binary(max_size=3)), min_size=1),
    mend=st.booleans(),
)
def test_changed_batches_mean_the_same_to_both(
    codec: Codec, lists: list[list[Record]], changes: list[tuple[int, bytes]], mend: bool
) -> None:
    *whole, last = (
        encode_batch(records, codec=codec, base_offset=records[0].offset) for records in lists
    )
    batch = bytearray(last)
    for position, byte in changes:
        at = (HEADER_SIZE if mend else 0) + position % len(batch)
        batch[at : at + 1] = byte
        if len(batch) <= HEADER_SIZE:
            return
    if mend:
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    agreed(lambda kernel: gathered_from(kernel, b"".join((*whole, batch))))


@settings(max_examples=300, deadline=None)
@given(batches=st.binary(max_size=300))
def test_random_bytes_mean_the_same_to_both(batches: bytes) -> None:
    agreed(lambda kernel: gathered_from(kernel, batches))


def test_a_batch_that_is_refused_leaves_no_row() -> None:
    body = PURE.encode_records([Record(at, 0, b"key", b"value") for at in range(5)], 0, 0)
    for kernel in KERNELS:
        gathering = kernel.gathering(True)
        for cut in range(len(body)):
            with pytest.raises(KafkaError):
                gathering.add(body[:cut], 5, 0, 0, None, 0, ALL)
        assert (gathering.rows, gathering.nbytes) == (0, 0)
