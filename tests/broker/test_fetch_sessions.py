"""Fetch sessions without a broker: epochs, eviction, what an incremental reply names."""

from itertools import count

import pytest

from ottla.broker.replicas.fetch_sessions import (
    EVICTION_MS,
    LAST_EPOCH,
    NO_SESSION,
    CachedPartition,
    FetchSessions,
)
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch import FINAL_EPOCH, INITIAL_EPOCH, FetchPartition, FetchRequest, PartitionData

BY_NAME = 12
BY_ID = 13


def asks(*indexes: int, offset: int = 0) -> list[FetchPartition]:
    return [FetchPartition(index, -1, offset, -1, -1, 1 << 20) for index in indexes]


def request(
    session: int = NO_SESSION,
    epoch: int = INITIAL_EPOCH,
    partitions: list[FetchPartition] | None = None,
    forgotten: list[int] | None = None,
    replica: int = -1,
) -> FetchRequest:
    return FetchRequest(
        replica,
        -1,
        500,
        1,
        1 << 20,
        0,
        session,
        epoch,
        [("t", partitions)] if partitions else [],
        [("t", forgotten)] if forgotten else [],
        "",
        None,
    )


def sessions(slots: int = 2) -> FetchSessions:
    return FetchSessions(slots, count(100).__next__)


def test_a_first_fetch_opens_a_session_and_names_everything() -> None:
    session, full = sessions().begin(request(partitions=asks(0, 1)), BY_NAME, 0)
    assert full
    assert session.id == 100
    assert session.epoch == 1
    assert [wanted.ask.partition for wanted in session.ready] == [0, 1]


def test_a_fetch_with_the_final_epoch_wants_no_session() -> None:
    cache = sessions()
    session, full = cache.begin(request(epoch=FINAL_EPOCH, partitions=asks(0)), BY_NAME, 0)
    assert full
    assert session.id == NO_SESSION
    assert len(cache) == 0


def test_an_incremental_fetch_changes_adds_and_forgets_partitions() -> None:
    cache = sessions()
    first, _ = cache.begin(request(partitions=asks(0, 1)), BY_NAME, 0)
    first.ready.clear()
    again, full = cache.begin(
        request(first.id, 1, partitions=asks(1, 2, offset=9), forgotten=[0]), BY_NAME, 1
    )
    assert again is first
    assert not full
    assert again.epoch == 2
    assert sorted(index for _, index in again.wanted) == [1, 2]
    assert [(wanted.ask.partition, wanted.ask.fetch_offset) for wanted in again.ready] == [
        (1, 9),
        (2, 9),
    ]


def test_an_unknown_session_is_not_found() -> None:
    with pytest.raises(KafkaError) as problem:
        sessions().begin(request(7, 1), BY_NAME, 0)
    assert problem.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_wrong_epoch_is_refused_and_changes_nothing() -> None:
    cache = sessions()
    session, _ = cache.begin(request(partitions=asks(0)), BY_NAME, 0)
    with pytest.raises(KafkaError) as problem:
        cache.begin(request(session.id, 5, partitions=asks(3)), BY_NAME, 0)
    assert problem.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert session.epoch == 1
    assert [index for _, index in session.wanted] == [0]


def test_a_session_cannot_change_between_names_and_ids() -> None:
    cache = sessions()
    session, _ = cache.begin(request(partitions=asks(0)), BY_NAME, 0)
    with pytest.raises(KafkaError) as problem:
        cache.begin(request(session.id, 1), BY_ID, 0)
    assert problem.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_wrong_epoch_is_reported_before_a_wrong_kind_of_name() -> None:
    cache = sessions()
    session, _ = cache.begin(request(partitions=asks(0)), BY_NAME, 0)
    with pytest.raises(KafkaError) as problem:
        cache.begin(request(session.id, 5), BY_ID, 0)
    assert problem.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_epochs_wrap_to_one() -> None:
    cache = sessions()
    session, _ = cache.begin(request(partitions=asks(0)), BY_NAME, 0)
    session.epoch = LAST_EPOCH
    cache.begin(request(session.id, LAST_EPOCH), BY_NAME, 0)
    assert session.epoch == 1


def test_a_session_with_nothing_left_to_want_ends() -> None:
    cache = sessions()
    session, _ = cache.begin(request(partitions=asks(0)), BY_NAME, 0)
    ended, _ = cache.begin(request(session.id, 1, forgotten=[0]), BY_NAME, 0)
    assert ended.id == NO_SESSION
    assert len(cache) == 0


def test_a_full_fetch_with_an_old_id_ends_the_old_session() -> None:
    cache = sessions()
    old, _ = cache.begin(request(partitions=asks(0)), BY_NAME, 0)
    new, _ = cache.begin(request(old.id, INITIAL_EPOCH, partitions=asks(0)), BY_NAME, 0)
    assert new.id == 101
    assert len(cache) == 1
    cache.begin(request(new.id, FINAL_EPOCH, partitions=asks(0)), BY_NAME, 0)
    assert len(cache) == 0


def test_a_full_cache_gives_no_session_to_a_newcomer() -> None:
    cache = sessions(1)
    cache.begin(request(partitions=asks(0)), BY_NAME, 0)
    late, full = cache.begin(request(partitions=asks(0, 1)), BY_NAME, EVICTION_MS)
    assert full
    assert late.id == NO_SESSION


def test_a_session_unused_for_two_minutes_makes_room() -> None:
    cache = sessions(1)
    cache.begin(request(partitions=asks(0, 1, 2)), BY_NAME, 0)
    newcomer, _ = cache.begin(request(partitions=asks(0)), BY_NAME, EVICTION_MS + 1)
    assert newcomer.id == 101
    assert cache.evictions == 1


def test_a_larger_newcomer_replaces_a_settled_smaller_session_but_not_a_followers() -> None:
    cache = sessions(2)
    consumer, _ = cache.begin(request(partitions=asks(0, 1)), BY_NAME, 0)
    follower, _ = cache.begin(request(partitions=asks(0), replica=2), BY_NAME, 0)
    now = EVICTION_MS + 1
    cache.begin(request(consumer.id, 1), BY_NAME, now)
    cache.begin(request(follower.id, 1, replica=2), BY_NAME, now)
    small, _ = cache.begin(request(partitions=asks(0)), BY_NAME, now)
    assert small.id == NO_SESSION
    large, _ = cache.begin(request(partitions=asks(0, 1, 2)), BY_NAME, now)
    assert large.id != NO_SESSION
    with pytest.raises(KafkaError):
        cache.begin(request(consumer.id, 2), BY_NAME, now)
    cache.begin(request(follower.id, 2, replica=2), BY_NAME, now)


def test_an_incremental_reply_names_a_partition_only_when_something_changed() -> None:
    session, _ = sessions().begin(request(partitions=asks(0)), BY_NAME, 0)
    wanted: CachedPartition = next(iter(session.wanted.values()))
    assert wanted.must_tell(PartitionData(0, 0, 5, 5, 0))
    assert not wanted.must_tell(PartitionData(0, 0, 5, 5, 0))
    assert wanted.must_tell(PartitionData(0, 0, 6, 6, 0))
    assert wanted.must_tell(PartitionData(0, 0, 6, 6, 2))
    assert wanted.must_tell(PartitionData(0, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
    assert wanted.must_tell(PartitionData(0, 0, 6, 6, 2))
