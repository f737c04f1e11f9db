import json

from hypothesis import given
from hypothesis import strategies as st

from ottla.client import TopicPartition
from pyspark_ottla.source.offsets import from_json, pinned_start, to_json, with_pinned_start

TOPICS = st.text("abcdefghijklmnopqrstuvwxyz0123456789._-", min_size=1, max_size=5)
OFFSETS = st.dictionaries(
    st.builds(TopicPartition, TOPICS, st.integers(0, 20)), st.integers(0, 2**63 - 1)
)


@given(OFFSETS)
def test_offsets_survive_the_way_through_spark(offsets: dict[TopicPartition, int]) -> None:
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


@given(st.permutations(range(12)))
def test_equal_offsets_are_equal_text(order: list[int]) -> None:
    in_order = {TopicPartition("t", partition): partition for partition in range(12)}
    shuffled = {TopicPartition("t", partition): partition for partition in order}
    assert json.dumps(to_json(shuffled)) == json.dumps(to_json(in_order))


@given(OFFSETS, OFFSETS)
def test_a_pinned_start_is_found_again_and_is_no_offset(
    end: dict[TopicPartition, int], start: dict[TopicPartition, int]
) -> None:
    kept = json.loads(json.dumps(with_pinned_start(end, start)))
    assert from_json(kept) == end
    assert pinned_start(kept) == start
    assert pinned_start(to_json(end)) is None
