"""What must hold of transactions whatever happens, in thousands of random interleavings.

See `transactions_world` for what can happen: producers of both transaction versions and zombies
among them, lost answers, markers that fail, come late or twice, timeouts, epochs that are used up,
and coordinators that crash and lose what was not committed.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import pytest

from ottla.coordinator.transactions.state import (
    AT_REST,
    DECIDED,
    NEXT,
    Transaction,
    TransactionState,
)
from ottla.wire.errors import ErrorCode

from .driver import Producer
from .world import Ended, World

WORLDS_IN_A_TEST = 200
STEPS = 150


class Decision(NamedTuple):
    """A transaction's end as the log has it."""

    transaction: Transaction
    taken_at: int
    completed_at: int
    outcome: TransactionState


@pytest.fixture(scope="module", params=range(10))
def worlds(request: pytest.FixtureRequest) -> list[World]:
    """Worlds in which much has happened, and everything come to its end."""
    made = []
    for number in range(WORLDS_IN_A_TEST):
        world = World(request.param * WORLDS_IN_A_TEST + number)
        for _ in range(STEPS):
            world.step()
        world.settle()
        made.append(world)
    return made


def decisions(world: World) -> Iterator[Decision]:
    for records in world.history().values():
        for (moment, before), (next_moment, after) in pairwise(records):
            if before.state in DECIDED:
                yield Decision(before, moment, next_moment, after.state)


def test_enough_happens(worlds: list[World]) -> None:
    outcomes = [decision.outcome for world in worlds for decision in decisions(world)]
    assert outcomes.count(TransactionState.COMPLETE_COMMIT) > WORLDS_IN_A_TEST
    assert outcomes.count(TransactionState.COMPLETE_ABORT) > WORLDS_IN_A_TEST
    assert sum(world.coordinator_epoch for world in worlds) > WORLDS_IN_A_TEST


def test_every_transaction_comes_to_its_end(worlds: list[World]) -> None:
    for world in worlds:
        assert not world.markers
        for records in world.history().values():
            assert records[-1][1].state in AT_REST


def test_an_id_has_one_transaction_at_a_time(worlds: list[World]) -> None:
    for world in worlds:
        for records in world.history().values():
            for (_, before), (_, after) in pairwise(records):
                assert after.state in NEXT[before.state]
                if before.state is after.state is TransactionState.ONGOING:
                    assert after.start_ms == before.start_ms


def test_a_decision_is_carried_out_as_it_was_taken(worlds: list[World]) -> None:
    for world in worlds:
        for decision in decisions(world):
            commit = decision.transaction.state is TransactionState.PREPARE_COMMIT
            expected = (
                TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
            )
            assert decision.outcome is expected


def test_every_partition_gets_its_marker_between_decision_and_completion(
    worlds: list[World],
) -> None:
    for world in worlds:
        for transaction, taken_at, completed_at, _ in decisions(world):
            commit = transaction.state is TransactionState.PREPARE_COMMIT
            for partition in transaction.partitions:
                assert any(
                    taken_at < marker.moment < completed_at
                    for marker in world.partitions[partition]
                    if marker[:3] == (transaction.producer_id, transaction.producer_epoch, commit)
                )


def test_no_partition_gets_a_marker_that_was_not_decided(worlds: list[World]) -> None:
    for world in worlds:
        decided = list(decisions(world))
        for partition, log in world.partitions.items():
            for marker in log:
                (owner,) = [
                    decision
                    for decision in decided
                    if decision.taken_at < marker.moment < decision.completed_at
                    and decision.transaction.producer_id == marker.producer_id
                ]
                assert partition in owner.transaction.partitions
                assert owner.transaction.producer_epoch == marker.producer_epoch
                assert marker.commit is (owner.transaction.state is TransactionState.PREPARE_COMMIT)


def test_epochs_never_go_back(worlds: list[World]) -> None:
    for world in worlds:
        for records in world.history().values():
            seen: dict[int, int] = {}
            for _, transaction in records:
                last = seen.get(transaction.producer_id, -1)
                assert last <= transaction.producer_epoch <= 32767
                seen[transaction.producer_id] = transaction.producer_epoch
                assert list(seen)[-1] == transaction.producer_id, "an old producer id came back"


def test_no_two_producers_are_given_the_same_epoch(worlds: list[World]) -> None:
    for world in worlds:
        assert len(set(world.given)) == len(world.given)
        assert all(given.epoch < 32767 for given in world.given)


def test_the_retry_of_an_end_gets_the_same_answer_as_long_as_nothing_came_after(
    worlds: list[World],
) -> None:
    asked = 0
    for world in worlds:
        history = world.history()
        latest: dict[str, Ended] = {ended.transactional_id: ended for ended in world.ended}
        for ended in latest.values():
            records = history[ended.transactional_id]
            after = [transaction for moment, transaction in records if moment > ended.moment]
            if len(after) > 1 or any(one.state is TransactionState.EMPTY for one in after):
                continue
            retry = Producer(world, ended.transactional_id)
            retry.producer_id, retry.epoch = ended.asked
            assert retry.end(commit=ended.commit) is ErrorCode.NONE
            assert (retry.producer_id, retry.epoch) == ended.answer
            asked += 1
    assert asked > WORLDS_IN_A_TEST // 10
