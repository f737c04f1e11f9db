"""What a follower does with an answer, and where two logs part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.leader_epochs import LeaderEpochFileCache
from ottla.replication.epochs import check_start, diverging, truncation_offset
from ottla.replication.follower import (
    FollowerAction,
    FollowerFetch,
    FollowerStep,
    Following,
    LeaderAnswer,
    marks,
)
from ottla.replication.lease import Lease
from ottla.wire.errors import ErrorCode, KafkaError

OK = ErrorCode.NONE


def answered(
    answer: LeaderAnswer,
    *,
    fetch: FollowerFetch | None = None,
    epochs: LeaderEpochFileCache | None = None,
    high_watermark: int = 0,
) -> FollowerStep:
    """A follower of epoch 5 whose log has 10 records, the last ones of epoch 3."""
    own = LeaderEpochFileCache([(1, 0), (3, 6)]) if epochs is None else epochs
    following = Following(2, 5)
    asked = following.fetch(10, own, 0) if fetch is None else fetch
    return following.answered(asked, answer, 10, own, high_watermark)


def test_a_fetch_says_where_the_log_ends_and_in_which_epoch() -> None:
    epochs = LeaderEpochFileCache([(1, 0), (3, 6)])
    assert Following(2, 5).fetch(10, epochs, 4) == FollowerFetch(5, 10, 3, 4)
    assert Following(2, 5).fetch(0, LeaderEpochFileCache(), 0) == FollowerFetch(5, 0, -1, 0)


def test_answers_of_a_former_term_are_dropped() -> None:
    assert answered(LeaderAnswer(OK), fetch=FollowerFetch(4, 10, 3, 0)) == FollowerStep(
        FollowerAction.DROP
    )
    assert (
        answered(LeaderAnswer(OK, diverging=(1, 2)), fetch=FollowerFetch(4, 10, 3, 0)).action
        is FollowerAction.DROP
    )


def test_answers_from_elsewhere_are_dropped() -> None:
    assert answered(LeaderAnswer(OK), fetch=FollowerFetch(5, 12, 3, 0)) == FollowerStep(
        FollowerAction.DROP
    )


def test_records_are_appended() -> None:
    assert answered(LeaderAnswer(OK, 10, 0)) == FollowerStep(FollowerAction.APPEND)


def test_the_log_is_truncated_where_the_leaders_epoch_ends() -> None:
    assert answered(LeaderAnswer(OK, diverging=(3, 8))) == FollowerStep(FollowerAction.TRUNCATE, 8)


def test_the_log_is_truncated_where_the_first_epoch_ends_or_begins() -> None:
    epochs = LeaderEpochFileCache([(0, 0), (3, 6)])
    assert answered(LeaderAnswer(OK, diverging=(0, 4)), epochs=epochs) == FollowerStep(
        FollowerAction.TRUNCATE, 4
    )
    assert answered(LeaderAnswer(OK, diverging=(0, 0)), epochs=epochs) == FollowerStep(
        FollowerAction.TRUNCATE, 0
    )


def test_the_log_is_truncated_where_an_own_epoch_ends_that_the_leader_knows() -> None:
    assert answered(LeaderAnswer(OK, diverging=(2, 8))) == FollowerStep(FollowerAction.TRUNCATE, 6)
    assert answered(LeaderAnswer(OK, diverging=(1, 4))) == FollowerStep(FollowerAction.TRUNCATE, 4)


def test_a_leader_that_knows_nothing_causes_no_truncation() -> None:
    assert answered(LeaderAnswer(OK, diverging=(-1, -1))) == FollowerStep(FollowerAction.BACK_OFF)


def test_a_log_that_ends_before_the_leaders_begins_is_truncated_fully() -> None:
    for start in (10, 50):
        answer = LeaderAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, log_start=start)
        assert answered(answer) == FollowerStep(FollowerAction.RESTART, start)


def test_an_empty_log_begins_where_the_leaders_does() -> None:
    answer = LeaderAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, log_start=3)
    fetch = FollowerFetch(5, 10, -1, 10)
    assert answered(answer, fetch=fetch, epochs=LeaderEpochFileCache()) == FollowerStep(
        FollowerAction.RESTART, 3
    )


def test_any_other_error_changes_nothing() -> None:
    for code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH):
        assert answered(LeaderAnswer(code)) == FollowerStep(FollowerAction.BACK_OFF)
    out_of_range = LeaderAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, log_start=2)
    assert answered(out_of_range) == FollowerStep(FollowerAction.BACK_OFF)


def test_the_high_watermark_is_the_leaders_as_far_as_the_log_goes() -> None:
    assert marks(LeaderAnswer(OK, 8, 0), 5, log_end=10, log_start=0).high_watermark == 8
    assert marks(LeaderAnswer(OK, 12, 0), 5, log_end=10, log_start=0).high_watermark == 10


def test_the_high_watermark_does_not_go_back_with_a_new_leader() -> None:
    assert marks(LeaderAnswer(OK, 3, 0), 5, log_end=10, log_start=0).high_watermark == 5


def test_the_log_start_follows_the_leaders_up_to_the_high_watermark() -> None:
    assert marks(LeaderAnswer(OK, 8, 6), 5, log_end=10, log_start=2).log_start == 6
    assert marks(LeaderAnswer(OK, 8, 9), 5, log_end=10, log_start=2).log_start == 8
    assert marks(LeaderAnswer(OK, 8, 1), 5, log_end=10, log_start=2).log_start == 2


@pytest.mark.parametrize(
    ("offset", "own_start", "last_epoch"),
    [(3, 0, 2), (3, 3, -1), (4, 0, 1), (6, 6, -1)],
    ids=["before", "empty", "nothing in common", "empty and further on"],
)
def test_a_follower_that_does_not_reach_into_the_log_is_out_of_range(
    offset: int, own_start: int, last_epoch: int
) -> None:
    with pytest.raises(KafkaError) as refused:
        check_start(LeaderEpochFileCache([(2, 4), (3, 8)]), 4, offset, own_start, last_epoch)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_may_begin_where_the_log_begins() -> None:
    check_start(LeaderEpochFileCache([(2, 4)]), 4, 4, 4, -1)
    check_start(LeaderEpochFileCache(), 0, 0, 0, -1)
    check_start(LeaderEpochFileCache([(2, 4)]), 4, 5, 0, 2)


def test_a_follower_that_ends_where_the_log_begins_continues_in_the_same_epoch() -> None:
    """All records were deleted: it need not give up its producers' state for that."""
    epochs = LeaderEpochFileCache([(1, 0), (2, 3)])
    epochs.truncate_from_start(9)
    check_start(epochs, 9, 9, 0, 2)


def test_what_is_committed_is_not_truncated() -> None:
    answer = LeaderAnswer(OK, diverging=(1, 4))
    assert answered(answer, high_watermark=4) == FollowerStep(FollowerAction.TRUNCATE, 4)
    assert answered(answer, high_watermark=5) == FollowerStep(FollowerAction.HALT, 4)


def test_an_epoch_removed_by_compaction_is_copied_again() -> None:
    """The leader has all offsets, but no batch of epoch 3: nothing is lost."""
    leader = LeaderEpochFileCache([(1, 0), (4, 20)])
    parting = diverging(leader, 30, 3, 10)
    assert parting == (1, 20)
    assert answered(LeaderAnswer(OK, diverging=parting), high_watermark=10) == FollowerStep(
        FollowerAction.TRUNCATE, 6
    )
    assert answered(LeaderAnswer(OK, diverging=(1, 9)), high_watermark=10) == FollowerStep(
        FollowerAction.HALT, 6
    )


def test_a_recorded_unclean_election_explains_what_the_leader_lacks() -> None:
    own = LeaderEpochFileCache([(1, 0), (3, 6)])
    following = Following(2, 5, may_lose=True)
    fetch = following.fetch(10, own, 0)
    diverges = LeaderAnswer(OK, diverging=(1, 4))
    assert following.answered(fetch, diverges, 10, own, 10) == FollowerStep(
        FollowerAction.TRUNCATE, 4
    )
    begins_later = LeaderAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, log_start=12)
    step = following.answered(fetch, begins_later, 10, own, 10, was_deleted=False)
    assert step == FollowerStep(FollowerAction.RESTART, 12)


@pytest.mark.parametrize("was_deleted", [True, False])
def test_records_below_the_leaders_start_go_only_where_that_is_explained(
    was_deleted: bool,
) -> None:
    own = LeaderEpochFileCache([(1, 0), (3, 6)])
    following = Following(2, 5)
    begins_later = LeaderAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, log_start=12)
    fetch = following.fetch(10, own, 0)
    step = following.answered(fetch, begins_later, 10, own, 10, was_deleted=was_deleted)
    assert step == FollowerStep(
        FollowerAction.RESTART if was_deleted else FollowerAction.SET_ASIDE, 12
    )
    found = marks(LeaderAnswer(OK, 8, 6), 5, log_end=10, log_start=2, was_deleted=was_deleted)
    assert found.log_start == (6 if was_deleted else 2)


def test_a_follower_without_records_restarts_wherever_the_leader_begins() -> None:
    following = Following(2, 5)
    for log_start in (0, 3, 12):
        answer = LeaderAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, log_start=log_start)
        fetch = following.fetch(10, LeaderEpochFileCache(), 10)
        step = following.answered(fetch, answer, 10, LeaderEpochFileCache(), 10, was_deleted=False)
        assert step == FollowerStep(FollowerAction.RESTART, log_start)


Log = list[tuple[int, int]]


def epochs_of(log: Log, led: int | None = None) -> LeaderEpochFileCache:
    epochs = LeaderEpochFileCache()
    for offset, (epoch, _) in enumerate(log):
        if epoch != epochs.latest:
            epochs.assign(epoch, offset)
    if led is not None:
        epochs.assign(led, len(log))
    return epochs


@st.composite
def two_logs(draw: st.DrawFn) -> tuple[Log, Log]:
    """Logs that several leaders wrote: each copied some log, then wrote on in its own epoch."""
    logs: list[Log] = [[]]
    for epoch in range(draw(st.integers(1, 6))):
        copied = draw(st.sampled_from(logs))
        start = copied[: draw(st.integers(0, len(copied)))]
        written = [(epoch, number) for number in range(draw(st.integers(0, 4)))]
        logs.append(start + written)
        logs.append(start + written[: draw(st.integers(0, len(written)))])
    return draw(st.sampled_from(logs)), draw(st.sampled_from(logs))


@given(two_logs())
def test_a_follower_truncates_until_its_log_is_a_prefix_of_the_leaders(
    logs: tuple[Log, Log],
) -> None:
    leader, follower = logs
    common = 0
    while common < min(len(leader), len(follower)) and leader[common] == follower[common]:
        common += 1
    leaders = epochs_of(leader, led=99)
    for _ in range(len(follower) + 1):
        own = epochs_of(follower)
        parting = diverging(leaders, len(leader), own.latest, len(follower))
        if parting is None:
            break
        cut = truncation_offset(parting, len(follower), own)
        assert cut < len(follower)
        follower = follower[:cut]
    assert follower == leader[: len(follower)]
    assert len(follower) == common


def test_a_lease_counts_from_the_sending_of_an_answered_request() -> None:
    lease = Lease()
    assert not lease.held(0)
    lease.answered(sent_at=10, timeout=9)
    assert lease.held(15.9)
    assert not lease.held(16)
    assert lease.left(13) == 3
    lease.answered(sent_at=8, timeout=9)
    assert lease.held(15.9), "a late answer to an older request takes nothing away"


def test_a_lease_ends_with_its_session() -> None:
    lease = Lease()
    lease.answered(sent_at=10, timeout=9)
    lease.ended()
    assert not lease.held(10)
    assert lease.left(10) == 0


def test_a_lease_without_a_timeout_is_held_for_good() -> None:
    lease = Lease()
    lease.answered(sent_at=10, timeout=float("inf"))
    assert lease.held(1e12)
