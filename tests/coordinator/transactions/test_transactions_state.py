"""The moves of one transactional id."""

from collections.abc import Callable

import pytest

from ottla.coordinator.transactions.state import (
    NEXT,
    IllegalTransitionError,
    Transaction,
    TransactionPartition,
    TransactionState,
)

P0 = TransactionPartition("topic", 0)
P1 = TransactionPartition("topic", 1)

Move = Callable[[Transaction], Transaction]

MOVES: dict[TransactionState, Move] = {
    TransactionState.EMPTY: lambda before: before.initialized(None, 1, 9),
    TransactionState.ONGOING: lambda before: before.joined_by(frozenset({P0}), 2, 9),
    TransactionState.PREPARE_COMMIT: lambda before: decided(before, commit=True),
    TransactionState.PREPARE_ABORT: lambda before: decided(before, commit=False),
}


def decided(before: Transaction, *, commit: bool) -> Transaction:
    return before.decided(commit=commit, client_transaction_version=2, next_producer_id=-1, now=9)


def in_state(state: TransactionState) -> Transaction:
    return Transaction(
        transactional_id="t",
        producer_id=5,
        producer_epoch=3,
        timeout_ms=100,
        state=state,
        partitions=frozenset({P0}) if state in (1, 2, 3) else frozenset(),
        start_ms=-1 if state is TransactionState.EMPTY else 1,
        last_update_ms=1,
    )


@pytest.mark.parametrize("before", TransactionState)
@pytest.mark.parametrize("after", MOVES)
def test_a_move_that_the_table_has_not_raises(
    before: TransactionState, after: TransactionState
) -> None:
    if after in NEXT[before]:
        assert MOVES[after](in_state(before)).state is after
    else:
        with pytest.raises(IllegalTransitionError):
            MOVES[after](in_state(before))


@pytest.mark.parametrize("before", TransactionState)
def test_only_a_decision_is_completed_and_as_it_was_taken(before: TransactionState) -> None:
    outcome = {
        TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
        TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
    }
    if before in outcome:
        after = in_state(before).completed(9)
        assert after.state is outcome[before]
        assert after.partitions == frozenset()
    else:
        with pytest.raises(IllegalTransitionError):
            in_state(before).completed(9)


def test_the_first_partitions_start_the_clock_and_later_ones_do_not() -> None:
    opened = in_state(TransactionState.COMPLETE_ABORT).joined_by(frozenset({P0}), 2, 50)
    more = opened.joined_by(frozenset({P1}), 2, 70)
    assert (opened.start_ms, opened.time_left_ms(50), opened.time_left_ms(149)) == (50, 100, 1)
    assert (opened.time_left_ms(200), opened.time_left_ms(0)) == (0, 100)
    assert (more.start_ms, more.last_update_ms) == (50, 70)
    assert more.partitions == {P0, P1}


def test_a_decision_raises_the_epoch_in_version_2_only() -> None:
    before = in_state(TransactionState.ONGOING)
    in_version_1 = before.decided(
        commit=True, client_transaction_version=0, next_producer_id=-1, now=9
    )
    in_version_2 = decided(before, commit=True)
    assert (in_version_1.producer_epoch, in_version_1.last_producer_epoch) == (3, -1)
    assert (in_version_2.producer_epoch, in_version_2.last_producer_epoch) == (4, 3)


def test_the_next_producer_id_takes_over_when_the_decision_is_carried_out() -> None:
    before = in_state(TransactionState.ONGOING)
    prepared = before.decided(commit=True, client_transaction_version=2, next_producer_id=8, now=9)
    complete = prepared.completed(10)
    assert prepared.producer_id == 5
    assert (complete.producer_id, complete.producer_epoch) == (8, 0)
    assert (complete.previous_producer_id, complete.next_producer_id) == (5, -1)


def test_an_epoch_never_goes_past_the_last() -> None:
    last = Transaction(
        transactional_id="t", producer_id=5, producer_epoch=32767, timeout_ms=1, last_update_ms=1
    )
    with pytest.raises(IllegalTransitionError):
        last.initialized(None, 1, 9)
    assert decided(last, commit=False).producer_epoch == 32767


def test_a_rotation_needs_a_producer_id_that_is_one() -> None:
    with pytest.raises(IllegalTransitionError):
        in_state(TransactionState.EMPTY).rotated(-1, None, 1, 9)


@pytest.mark.parametrize(
    ("state", "name"),
    [
        (TransactionState.EMPTY, "Empty"),
        (TransactionState.PREPARE_COMMIT, "PrepareCommit"),
        (TransactionState.PREPARE_EPOCH_FENCE, "PrepareEpochFence"),
    ],
)
def test_states_have_kafkas_names(state: TransactionState, name: str) -> None:
    assert state.kafka_name == name
