"""Rows of Arrow columns to record batches, on both kernels."""

from array import array

import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records import Codec, Record, decode_batch, encode_batch
from ottla.records.hashing import partition_of, row_hash
from ottla.records.kernel import Kernel
from ottla.records.layout import Binary, Headers
from ottla.records.rows import Rows, batch, group
from ottla.wire.batch import read_header

from .kernels import NOW, agreed, header_lists, on_each_kernel, parts

LIMIT = 10**6
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
LARGE_HEADERS = pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
tables = st.lists(st.tuples(parts, parts, header_lists), min_size=1, max_size=12)


def rows_of(
    table: list[Row], kernel: Kernel, *, large: bool = False, before: int = 0, behind: int = 0
) -> Rows:
    """The rows as a slice of longer columns."""
    around: Row = (b"other", None, [("other", b"x")])
    whole = [around] * before + table + [around] * behind
    keys, values, headers = zip(*whole, strict=True)
    kind = pa.large_binary() if large else pa.binary()
    lists = [[{"key": key, "value": value} for key, value in each] or None for each in headers]
    columns = (
        pa.array(keys, kind),
        pa.array(values, kind),
        pa.array(lists, LARGE_HEADERS if large else HEADERS),
    )
    return Rows(*(column.slice(before, len(table)) for column in columns), kernel=kernel)


@on_each_kernel
@settings(deadline=None)
@given(
    table=tables,
    large=st.booleans(),
    before=st.integers(0, 10),
    behind=st.integers(0, 3),
    codec=st.sampled_from(Codec),
)
def test_rows_become_the_batch_that_their_records_would(
    kernel: Kernel, table: list[Row], large: bool, before: int, behind: int, codec: Codec
) -> None:
    rows = rows_of(table, kernel, large=large, before=before, behind=behind)
    assert len(rows) == len(table)
    inside, end = rows.encode(None, 0, LIMIT)
    assert end == len(table)
    made = batch(
        inside,
        end,
        timestamp_ms=NOW,
        codec=codec,
        producer_id=4,
        producer_epoch=5,
        base_sequence=6,
        transactional=True,
    )
    records = [Record(at, NOW, *row) for at, row in enumerate(table)]
    assert made == encode_batch(
        records,
        codec=codec,
        producer_id=4,
        producer_epoch=5,
        base_sequence=6,
        transactional=True,
    )
    read = decode_batch(made)
    assert [(*record[:4], list(record.headers)) for record in read] == [
        (*record[:4], list(record.headers)) for record in records
    ]


@on_each_kernel
@settings(deadline=None)
@given(table=tables, data=st.data(), limit=st.integers(0, 500))
def test_positions_choose_rows_and_batches_keep_to_a_size(
    kernel: Kernel, table: list[Row], data: st.DataObject, limit: int
) -> None:
    rows = rows_of(table, kernel)
    positions = array("i", data.draw(st.lists(st.integers(0, len(table) - 1), min_size=1)))
    start = 0
    while start < len(positions):
        inside, end = rows.encode(positions, start, limit)
        records = [Record(at, 0, *table[row]) for at, row in enumerate(positions[start:end])]
        assert inside == kernel.encode_records(records, 0, 0)
        assert len(inside) <= limit or end == start + 1
        if end < len(positions):
            one_more = Record(end - start, 0, *table[positions[end]])
            assert len(kernel.encode_records([*records, one_more], 0, 0)) > limit
        start = end


@on_each_kernel
@settings(deadline=None)
@given(table=tables, count=st.integers(1, 2**31 - 1), before=st.integers(0, 10))
def test_keys_choose_the_java_clients_partitions(
    kernel: Kernel, table: list[Row], count: int, before: int
) -> None:
    found = rows_of(table, kernel, before=before).partitions(count)
    assert found.typecode == "i"
    assert list(found) == [-1 if key is None else partition_of(key, count) for key, _, _ in table]


@on_each_kernel
@settings(deadline=None)
@given(table=tables, data=st.data())
def test_a_digest_is_the_sum_of_the_hashes_of_rows(
    kernel: Kernel, table: list[Row], data: st.DataObject
) -> None:
    rows = rows_of(table, kernel)
    hashes = [
        row_hash(key, value, [(name.encode(), item) for name, item in headers])
        for key, value, headers in table
    ]
    assert rows.digest() == sum(hashes) % 2**64
    shuffled = array("i", data.draw(st.permutations(range(len(table)))))
    assert rows.digest(shuffled) == rows.digest()
    some = shuffled[: len(table) // 2]
    assert rows.digest(some) == sum(hashes[row] for row in some) % 2**64


def test_rows_that_differ_have_other_hashes() -> None:
    rows: list[tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]] = [
        (None, None, []),
        (b"", None, []),
        (None, b"", []),
        (b"", b"", []),
        (b"a", b"", []),
        (b"", b"a", []),
        (b"\0", b"a", []),
        (b"a", b"b", []),
        (b"ab", b"", []),
        (b"a", b"b", [(b"", None)]),
        (b"a", b"b", [(b"", b"")]),
        (b"a", b"b", [(b"c", b"d")]),
        (b"a", b"b", [(b"cd", b"")]),
        (b"a", b"b", [(b"c", b"d"), (b"c", b"d")]),
    ]
    assert len({row_hash(*row) for row in rows}) == len(rows)


@on_each_kernel
def test_text_and_columns_that_are_not_there_are_taken(kernel: Kernel) -> None:
    text = pa.array(["kä", None, ""])
    for column in (text, text.cast(pa.large_string())):
        inside, end = Rows(None, column, kernel=kernel).encode(None, 0, LIMIT)
        values = ["kä".encode(), None, b""]
        records = [Record(at, 0, None, value) for at, value in enumerate(values)]
        assert (inside, end) == (kernel.encode_records(records, 0, 0), 3)
    nothing = pa.nulls(3)
    assert Rows(nothing, text, nothing, kernel=kernel).encode(None, 0, LIMIT)[0] == inside
    assert list(Rows(nothing, text, kernel=kernel).partitions(9)) == [-1, -1, -1]


@on_each_kernel
def test_an_empty_table_has_no_rows(kernel: Kernel) -> None:
    empty = pa.array([], pa.binary())
    rows = Rows(empty, empty, pa.array([], HEADERS), kernel=kernel)
    assert (len(rows), list(rows.partitions(3)), rows.digest()) == (0, [], 0)
    with pytest.raises(ValueError, match="row 0 of 0"):
        rows.encode(None, 0, LIMIT)


@on_each_kernel
def test_a_header_without_a_key_is_refused_where_a_row_has_it(kernel: Kernel) -> None:
    for entry in ({"key": None, "value": b"x"}, None):
        headers = pa.array([[{"key": "k", "value": None}], [entry]], HEADERS)
        rows = Rows(None, pa.array([b"a", b"b"]), headers, kernel=kernel)
        assert rows.encode(array("i", [0]), 0, LIMIT)[1] == 1
        with pytest.raises(ValueError, match="header without a key"):
            rows.encode(None, 0, LIMIT)
        with pytest.raises(ValueError, match="header without a key"):
            rows.digest()


@on_each_kernel
def test_wrong_columns_are_refused(kernel: Kernel) -> None:
    values = pa.array([b"a", b"b"])
    with pytest.raises(TypeError, match="value must be bytes or text, not int64"):
        Rows(None, pa.array([1, 2]), kernel=kernel)
    for wrong in (pa.array(["a", "b"]), pa.array([[1], [2]]), pa.array([[{"k": b""}]] * 2)):
        with pytest.raises(TypeError, match="headers must be a list"):
            Rows(None, values, wrong, kernel=kernel)
    with pytest.raises(ValueError, match="columns of one length"):
        Rows(values, pa.array([b"a"]), kernel=kernel)
    with pytest.raises(ValueError, match="columns of one length"):
        Rows(None, None, kernel=kernel)
    with pytest.raises(ValueError, match="0 partitions"):
        Rows(None, values, kernel=kernel).partitions(0)


@on_each_kernel
def test_wrong_positions_are_refused(kernel: Kernel) -> None:
    rows = Rows(None, pa.array([b"a", b"b"]), kernel=kernel)
    for wrong in (-1, 2, 2**31 - 1):
        with pytest.raises(IndexError, match=f"row {wrong} of 2"):
            rows.encode(array("i", [0, wrong]), 0, LIMIT)
        with pytest.raises(IndexError, match=f"row {wrong} of 2"):
            rows.digest(array("i", [0, wrong]))
    with pytest.raises(TypeError, match="32 bits"):
        rows.encode(array("q", [0]), 0, LIMIT)
    for start in (-1, 2):
        with pytest.raises(ValueError, match=f"row {start} of 2"):
            rows.encode(None, start, LIMIT)


@on_each_kernel
def test_positions_may_be_arrow_buffers(kernel: Kernel) -> None:
    rows = Rows(None, pa.array([b"a", b"b"]), kernel=kernel)
    buffer = pa.array([1, 0], pa.int32()).buffers()[1]
    assert rows.encode(buffer[:8], 0, LIMIT) == rows.encode(array("i", [1, 0]), 0, LIMIT)


@on_each_kernel
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("offsets", [[0, 1], [0, 4, 3], [0, 2, 4], [-1, 0, 1], [1, 0, 3]])
def test_offsets_that_lie_are_refused(kernel: Kernel, large: bool, offsets: list[int]) -> None:
    buffer = array("q" if large else "i", offsets)
    lying = Binary(None, buffer, b"abc", large=large)
    with pytest.raises(ValueError, match="a column"):
        kernel.row_encoder(2, lying, None, None)
    honest = Binary(None, array("i", [0, 1, 2, 3]), b"abc")
    with pytest.raises(ValueError, match="a column"):
        kernel.row_encoder(2, None, None, Headers(None, buffer, 3, honest, honest, large=large))
    with pytest.raises(ValueError, match="validity"):
        kernel.row_encoder(2, honest._replace(validity=b""), None, None)


@on_each_kernel
@given(numbers=st.lists(st.integers(-1, 5) | st.integers(-(2**31), 2**31 - 1), max_size=30))
def test_positions_are_grouped_by_their_number(kernel: Kernel, numbers: list[int]) -> None:
    groups = group(array("i", numbers), kernel=kernel)
    assert {number: list(found) for number, found in groups.items()} == {
        number: [at for at, other in enumerate(numbers) if other == number] for number in numbers
    }
    few = [number for number in numbers if -1 <= number <= 5]
    assert sum(map(len, group(array("i", few), kernel=kernel).values())) == len(few)


@settings(deadline=None)
@given(table=tables)
def test_both_kernels_write_the_same(table: list[Row]) -> None:
    agreed(lambda kernel: rows_of(table, kernel).encode(None, 0, 300))
    agreed(lambda kernel: rows_of(table, kernel).digest())


def test_a_batch_has_the_time_it_is_given() -> None:
    inside, count = Rows(None, pa.array([b"a", b"b"])).encode(None, 0, LIMIT)
    header = read_header(memoryview(batch(inside, count, timestamp_ms=NOW)))
    assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW)
    assert (header.record_count, header.last_offset_delta) == (2, 1)
