"""Which row goes where: from Arrow columns to records, without Spark and without a broker."""

from collections.abc import Sequence

import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client import TopicPartition
from ottla.records import decode_batch
from ottla.records.hashing import partition_of
from ottla.records.rows import batch
from pyspark_ottla.sink.columns import Columns
from pyspark_ottla.sink.errors import RowError
from pyspark_ottla.sink.routing import Routing

COUNTS = {"one": 1, "three": 3, "five": 5}
EVERYTHING = Columns(value=0, key=1, topic=2, partition=3, headers=None)
VALUE_ONLY = Columns(value=0, key=None, topic=None, partition=None, headers=None)

Row = tuple[bytes | None, bytes | None, str, int | None]


def arrow(rows: Sequence[Row]) -> pa.RecordBatch:
    values, keys, topics, partitions = (list(column) for column in zip(*rows, strict=True))
    return pa.record_batch(
        [
            pa.array(values, pa.binary()),
            pa.array(keys, pa.binary()),
            pa.array(topics, pa.string()),
            pa.array(partitions, pa.int32()),
        ],
        ["value", "key", "topic", "partition"],
    )


def routing(
    columns: Columns,
    topic: str | None = None,
    batch_bytes: int = 1000,
    led: Sequence[int] | None = None,
) -> Routing:
    return Routing(
        columns,
        topic,
        COUNTS.__getitem__,
        lambda name: range(COUNTS[name]) if led is None else led,
        batch_bytes=batch_bytes,
        first_partition=0,
    )


def routed(
    route: Routing, batches: Sequence[pa.RecordBatch]
) -> dict[TopicPartition, list[tuple[bytes | None, bytes | None]]]:
    found: dict[TopicPartition, list[tuple[bytes | None, bytes | None]]] = {}
    for where, records, rows, timestamp in route.pieces(batches, lambda: 1, digest=True):
        decoded = decode_batch(batch(records, rows, timestamp_ms=timestamp))
        assert len(decoded) == rows
        found.setdefault(where, []).extend((item.key, item.value) for item in decoded)
    return found


ROWS = st.lists(
    st.tuples(
        st.binary(max_size=40),
        st.none() | st.binary(max_size=8),
        st.sampled_from(sorted(COUNTS)),
        st.none() | st.just(0),
    ),
    min_size=1,
    max_size=60,
).map(lambda rows: [(b"%d " % at + row[0], *row[1:]) for at, row in enumerate(rows)])
"""Rows whose values all differ."""


@given(ROWS, st.integers(1, 20), st.integers(1, 300))
def test_every_row_goes_where_it_belongs_in_its_order(
    rows: list[Row], per_batch: int, batch_bytes: int
) -> None:
    route = routing(EVERYTHING, batch_bytes=batch_bytes)
    whole = arrow(rows)
    found = routed(route, [whole.slice(at, per_batch) for at in range(0, len(rows), per_batch)])
    assert route.rows == len(rows)
    expected: dict[TopicPartition, list[tuple[bytes | None, bytes | None]]] = {}
    free: list[tuple[str, bytes | None]] = []
    for value, key, topic, partition in rows:
        if partition is None and key is None:
            free.append((topic, value))
            continue
        target = partition_of(key or b"", COUNTS[topic]) if partition is None else partition
        expected.setdefault(TopicPartition(topic, target), []).append((key, value))
    for where, records in found.items():
        chosen = set(expected.get(where, []))
        assert [record for record in records if record in chosen] == expected.get(where, [])
    everything = [(where.topic, value) for where, part in found.items() for _, value in part]
    assert sorted(everything, key=repr) == sorted(((row[2], row[0]) for row in rows), key=repr)


@given(ROWS)
def test_the_digest_does_not_depend_on_how_rows_come(rows: list[Row]) -> None:
    first, second = routing(EVERYTHING), routing(EVERYTHING)
    routed(first, [arrow(rows)])
    backwards = arrow(rows[::-1])
    second.count_only([backwards.slice(at, 1) for at in range(len(rows))])
    assert (first.rows, first.digest) == (second.rows, second.digest)


def test_keyless_rows_go_from_partition_to_partition() -> None:
    values = pa.record_batch([pa.array([b"x" * 90] * 30)], ["value"])
    found = routed(routing(VALUE_ONLY, "three", batch_bytes=500), [values])
    assert sorted(len(part) for part in found.values()) == [10, 10, 10]


@pytest.mark.parametrize(("led", "expected"), [([0, 2], {0, 2}), ([], {0, 1, 2})])
def test_keyless_rows_go_past_partitions_that_nobody_leads(
    led: list[int], expected: set[int]
) -> None:
    values = pa.record_batch([pa.array([b"x" * 90] * 30)], ["value"])
    found = routed(routing(VALUE_ONLY, "three", batch_bytes=500, led=led), [values])
    assert {where.partition for where in found} == expected


def test_rows_with_a_key_or_a_partition_do_not_go_past_those() -> None:
    rows: list[Row] = [(b"v", b"%d" % at, "three", None) for at in range(20)]
    rows += [(b"v", None, "three", 1)]
    found = routed(routing(EVERYTHING, led=[0]), [arrow(rows)])
    assert {where.partition for where in found} == {0, 1, 2}


def test_small_arrow_batches_are_gathered() -> None:
    values = pa.record_batch([pa.array([b"x" * 90] * 10)], ["value"])
    route = routing(VALUE_ONLY, "five", batch_bytes=100_000)
    pieces = list(route.pieces([values] * 100, lambda: 0, digest=False))
    assert sum(piece.rows for piece in pieces) == 1000
    assert len(pieces) == 2  # The first comes at once: nothing is known of its topic yet.


def test_a_row_without_a_topic_is_an_error() -> None:
    rows = arrow([(b"v", None, "one", None)]).set_column(2, "topic", pa.array([None], pa.string()))
    with pytest.raises(RowError, match="a row has no topic"):
        routed(routing(EVERYTHING), [rows])


@pytest.mark.parametrize(("partition", "text"), [(3, "partitions 0 to 2"), (-1, "count from 0")])
def test_a_partition_that_does_not_exist_is_an_error(partition: int, text: str) -> None:
    with pytest.raises(RowError, match=text):
        routed(routing(EVERYTHING), [arrow([(b"v", None, "three", partition)])])
