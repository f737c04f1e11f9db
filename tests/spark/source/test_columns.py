"""Batches for Spark: sizes that it likes, and every row once."""

import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
import pytest

from pyspark_ottla.source.columns import ROWS, RowBatches


@pytest.mark.parametrize("rows", [1, ROWS - 1, ROWS, ROWS + 66, 2 * ROWS - 1, 2 * ROWS, 25_000])
def test_parts_hold_every_row_once_and_none_is_small(rows: int) -> None:
    records = pa.record_batch({"offset": pa.array(range(rows), pa.int64())})
    parts = list(RowBatches("t", 3).of(records))
    assert [part.schema.names for part in parts] == [["topic", "partition", "offset"]] * len(parts)
    table = pa.Table.from_batches(parts)
    assert table["offset"].to_pylist() == list(range(rows))
    assert set(table["topic"].to_pylist()) == {"t"}
    assert set(table["partition"].to_pylist()) == {3}
    assert min(part.num_rows for part in parts) >= min(rows, ROWS)
    assert max(part.num_rows for part in parts) < 2 * ROWS


def test_no_rows_are_no_batch() -> None:
    records = pa.record_batch({"offset": pa.array([], pa.int64())})
    assert list(RowBatches("t", 0).of(records)) == []
