"""Loading a coordinator: what is left out makes no difference."""

import uuid
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordinators import latest_records as gathering
from ottla.broker.coordinators.group_coordinator import GroupRunner
from ottla.broker.coordinators.latest_records import LatestRecords
from ottla.coordinator.classic.schemas import GroupMetadataKey, GroupMetadataValue
from ottla.coordinator.group_config import GroupConfig
from ottla.coordinator.group_shard import GroupShard
from ottla.coordinator.offsets.records import OffsetCommitKey, OffsetCommitValue, is_offset_key
from ottla.coordinator.record_codec import write_offset, write_record, write_tombstone
from ottla.coordinator.shard import CoordinatorRecord
from ottla.records import Record, decode_batch, encode_batch
from ottla.records.control import Marker, MarkerType, decode_marker, encode_marker
from ottla.wire.batch import BatchHeader, headers

NO_PRODUCER = -1
TOPIC_ID = uuid.uuid4()

keys = st.builds(
    OffsetCommitKey,
    group=st.sampled_from(["a", "b"]),
    topic=st.just("t"),
    partition=st.integers(0, 1),
)
producers = st.integers(1, 2)
commits = st.builds(
    lambda key, offset: write_offset(key, OffsetCommitValue(offset=offset, topic_id=TOPIC_ID)),
    keys,
    st.integers(0, 9),
)
deletions = st.builds(write_tombstone, keys)
groups = st.builds(
    lambda name, generation: write_record(
        GroupMetadataKey(group=name), GroupMetadataValue(generation=generation), 3
    ),
    st.sampled_from(["a", "b"]),
    st.integers(0, 5),
)
ends_of_groups = st.builds(
    lambda name: write_tombstone(GroupMetadataKey(group=name)), st.sampled_from(["a", "b"])
)
steps = st.one_of(
    st.tuples(st.just(NO_PRODUCER), st.one_of(commits, commits, deletions, groups, ends_of_groups)),
    st.tuples(producers, commits),
    st.tuples(producers, st.booleans()),
)


def new_shard() -> GroupShard:
    config = GroupConfig()
    return GroupShard(config, cast(Any, None), lambda _: set(), lambda: "id", lambda _: config)


def batch_of(producer: int, what: CoordinatorRecord | bool) -> tuple[BatchHeader, memoryview]:
    if isinstance(what, bool):
        kind = MarkerType.COMMIT if what else MarkerType.ABORT
        data = memoryview(bytearray(encode_marker(Marker(kind, 0, producer, 0), 0)))
    else:
        data = memoryview(
            bytearray(
                encode_batch(
                    [Record(0, 1, what.key, what.value)],
                    producer_id=producer,
                    producer_epoch=-1 if producer == NO_PRODUCER else 0,
                    transactional=producer != NO_PRODUCER,
                )
            )
        )
    ((_, header),) = headers(data)
    return header, data


def told(shard: GroupShard) -> object:
    """What a shard knows, but for the numbers by which commits are ordered."""
    state = shard._state
    return (
        sorted(state.groups),
        {
            (group, place): (offset.offset, offset.topic_id)
            for group, places in state.offsets._committed.items()
            for place, offset in places.items()
        },
        {
            (producer, place): offset.offset
            for producer, places in state.offsets._pending.items()
            for place, offset in places.items()
        },
        state.offsets._open,
    )


def replay_each(shard: GroupShard, header: BatchHeader, data: memoryview) -> None:
    if header.is_control:
        marker = decode_marker(data)
        shard.complete_transaction(marker.producer_id, commit=marker.type is MarkerType.COMMIT)
        return
    producer = header.producer_id if header.is_transactional else NO_PRODUCER
    for record in decode_batch(data):
        shard.replay(CoordinatorRecord(record.key or b"", record.value), producer)


@pytest.mark.parametrize("most", [1, 2, 100])
def test_a_log_says_the_same_with_all_of_its_records_and_with_the_last_ones(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "MOST", most)

    @given(st.lists(steps, max_size=30))
    def check(history: list[tuple[int, CoordinatorRecord | bool]]) -> None:
        every, last = new_shard(), new_shard()
        gathered = LatestRecords(last.replay)
        runner = GroupRunner.__new__(GroupRunner)  # it needs no partition to replay
        for producer, what in history:
            header, data = batch_of(producer, what)
            replay_each(every, header, data)
            GroupRunner.replay_batch(runner, last, gathered, header, data)
        gathered.replay_all()
        assert told(last) == told(every)

    check()


def test_of_many_records_of_a_key_one_is_replayed() -> None:
    replayed: list[CoordinatorRecord] = []
    gathered = LatestRecords(replayed.append)
    for number in range(10_000):
        gathered.put(b"key %d" % (number % 7), b"%d" % number)
    gathered.replay_all()
    assert [record.value for record in replayed] == [b"%d" % (9_993 + place) for place in range(7)]


def test_none_is_forgotten_where_there_are_more_keys_than_are_gathered() -> None:
    replayed: list[bytes] = []
    gathered = LatestRecords(lambda record: replayed.append(record.key))
    written = [b"key %d" % number for number in range(3 * gathering.MOST + 1)]
    for key in written:
        gathered.put(key, b"")
    gathered.replay_all()
    assert replayed == written


def test_offsets_are_told_from_the_rest_by_their_keys() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    assert is_offset_key(write_tombstone(key).key)
    assert not is_offset_key(write_tombstone(GroupMetadataKey(group="g")).key)
