"""The size of a batch is known before it is made."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.batch_sizes import batch_size, batches, fits, largest_size
from ottla.coordinator.shard import CoordinatorRecord
from ottla.records import Record, encode_batch

LENGTHS = st.one_of(st.integers(0, 300), st.sampled_from([8191, 8192, 20_000]))
RECORDS = st.lists(
    st.builds(
        lambda key, value: CoordinatorRecord(bytes(key), None if value is None else bytes(value)),
        LENGTHS,
        st.none() | LENGTHS,
    ),
    min_size=1,
    max_size=150,
)


def encoded(records: list[CoordinatorRecord]) -> int:
    return len(
        encode_batch([Record(at, 7, each.key, each.value) for at, each in enumerate(records)])
    )


@given(RECORDS)
def test_the_size_is_that_of_the_batch(records: list[CoordinatorRecord]) -> None:
    size = encoded(records)
    assert batch_size(records) == size <= largest_size(records)
    assert fits(records, size)
    assert not fits(records, size - 1)


@given(RECORDS, st.integers(100, 30_000))
def test_records_are_divided_into_batches_that_fit(
    records: list[CoordinatorRecord], limit: int
) -> None:
    divided = batches(records, limit)
    assert [each for batch in divided for each in batch] == records
    for batch in divided:
        assert encoded(batch) <= limit or len(batch) == 1
    for batch, after in pairwise(divided):
        assert encoded([*batch, after[0]]) > limit, "no batch more than needed"


def test_nothing_is_no_batch() -> None:
    assert batches([], 100) == []
    assert fits([], 100)
