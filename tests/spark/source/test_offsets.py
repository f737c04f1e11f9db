import json
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ottla.client import TopicPartition
from pyspark_ottla.source.offsets import (
    Position,
    from_json,
    pinned_start,
    to_json,
    with_pinned_start,
)

TOPICS = st.text("abcdefghijklmnopqrstuvwxyz0123456789._-", min_size=1, max_size=5)
OFFSETS = st.dictionaries(
    st.builds(TopicPartition, TOPICS, st.integers(0, 20)), st.integers(0, 2**63 - 1)
)


POSITIONS = OFFSETS.flatmap(
    lambda offsets: st.builds(
        Position,
        st.just(offsets),
        st.fixed_dictionaries({}, optional={topic: st.uuids() for topic, _ in offsets}),
    )
)


@given(POSITIONS)
def test_offsets_and_topic_ids_survive_the_way_through_spark(position: Position) -> None:
    assert from_json(json.loads(json.dumps(to_json(*position)))) == position


@given(st.permutations(range(12)))
def test_equal_offsets_are_equal_text(order: list[int]) -> None:
    topic_id = UUID(int=7)
    in_order = {TopicPartition(f"t{n % 2}", n): n for n in range(12)}
    shuffled = {TopicPartition(f"t{n % 2}", n): n for n in order}
    one = to_json(shuffled, {"t1": topic_id, "t0": topic_id})
    assert json.dumps(one) == json.dumps(to_json(in_order, {"t0": topic_id, "t1": topic_id}))


@given(POSITIONS, POSITIONS)
def test_a_pinned_start_is_found_again_and_is_no_offset(end: Position, start: Position) -> None:
    kept = json.loads(json.dumps(with_pinned_start(end, start)))
    assert from_json(kept) == end
    assert pinned_start(kept) == start
    assert pinned_start(to_json(*end)) is None


def test_offsets_of_a_checkpoint_without_topic_ids_are_read() -> None:
    assert from_json({"t": {"0": 5}}) == Position({TopicPartition("t", 0): 5}, {})


def test_a_topic_with_another_id_was_created_again() -> None:
    one, other = UUID(int=1), UUID(int=2)
    known = Position({TopicPartition("t", 0): 5}, {"t": one})
    assert known.recreated({"t": other}) == {"t"}
    assert known.recreated({"t": one}) == set()
    assert known.recreated({"u": other}) == set()
    assert Position(known.offsets, {}).recreated({"t": other}) == set()
