"""The end of a transaction is carried out: markers, their failures, and restarts in between."""

import pytest
from msgspec.structs import replace

from ottla.coordinator.transactions.markers import FIRST_RETRY_MS, LAST_RETRY_MS
from ottla.coordinator.transactions.state import TransactionPartition
from ottla.wire.errors import ErrorCode

from .driver import Driver, Producer, state_of

P0, P1 = TransactionPartition("topic", 0), TransactionPartition("topic", 1)


def an_ended_transaction(driver: Driver, *, commit: bool = True, version: int = 2) -> Producer:
    producer = Producer(driver, version=version)
    assert producer.init() is ErrorCode.NONE
    assert producer.add(0, 1) is ErrorCode.NONE
    assert producer.end(commit=commit) is ErrorCode.NONE
    return producer


def test_a_transaction_is_complete_when_the_last_partition_has_its_marker() -> None:
    driver = Driver()
    an_ended_transaction(driver)
    (markers,) = driver.markers
    driver.report(markers, {P0: ErrorCode.NONE})
    assert state_of(driver) == "PrepareCommit"
    driver.report(markers, {P1: ErrorCode.NONE})
    assert state_of(driver) == "CompleteCommit"


def test_a_report_that_comes_twice_changes_nothing() -> None:
    driver = Driver()
    an_ended_transaction(driver)
    (markers,) = driver.markers
    driver.report(markers, {P0: ErrorCode.NONE})
    driver.report(markers, {P0: ErrorCode.NONE})
    assert state_of(driver) == "PrepareCommit"
    driver.report(markers)
    written = len(driver.log)
    driver.report(markers)
    assert len(driver.log) == written


def test_a_late_report_does_not_pass_for_one_of_the_next_transaction() -> None:
    # In version 1 both transactions have the same producer, epoch and partitions.
    driver = Driver()
    producer = an_ended_transaction(driver, version=1)
    late = driver.markers[0]
    driver.write_markers()
    assert producer.add(0, 1) is ErrorCode.NONE
    assert producer.end(commit=True) is ErrorCode.NONE
    driver.report(late)
    assert state_of(driver) == "PrepareCommit"
    driver.write_markers()
    assert state_of(driver) == "CompleteCommit"


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_failed_and_nothing_else_is_asked_for_again(code: ErrorCode) -> None:
    driver = Driver()
    an_ended_transaction(driver)
    first = driver.markers.pop()
    driver.report(first, {P0: code})
    driver.advance_to(driver.now + FIRST_RETRY_MS - 1)
    assert not driver.markers
    driver.advance_to(driver.now + 1)
    (again,) = driver.markers
    assert again == replace(first, partitions=(P0,))
    driver.report(again)
    assert state_of(driver) == "PrepareCommit"
    driver.report(first, {P1: ErrorCode.NONE})
    assert state_of(driver) == "CompleteCommit"


def test_failures_are_collected_until_the_next_try() -> None:
    driver = Driver()
    an_ended_transaction(driver)
    (markers,) = driver.markers
    driver.markers.clear()
    driver.report(markers, {P0: ErrorCode.REQUEST_TIMED_OUT})
    driver.report(markers, {P1: ErrorCode.REQUEST_TIMED_OUT})
    driver.advance_to(driver.now + FIRST_RETRY_MS)
    assert [again.partitions for again in driver.markers] == [(P0, P1)]


def test_who_fails_again_and_again_is_asked_less_and_less_often() -> None:
    driver = Driver()
    an_ended_transaction(driver)
    waits = []
    for _ in range(7):
        markers, began = driver.markers.pop(), driver.now
        driver.report(markers, {P0: ErrorCode.NOT_ENOUGH_REPLICAS})
        while not driver.markers:
            driver.advance_to(driver.now + 10)
        waits.append(driver.now - began)
    assert waits[:3] == [FIRST_RETRY_MS, 2 * FIRST_RETRY_MS, 4 * FIRST_RETRY_MS]
    assert waits[-2:] == [LAST_RETRY_MS, LAST_RETRY_MS]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    ],
)
def test_a_partition_that_needs_no_marker_does_not_hold_up_the_rest(code: ErrorCode) -> None:
    driver = Driver()
    an_ended_transaction(driver)
    driver.report(driver.markers.pop(), {P0: code, P1: ErrorCode.NONE})
    assert state_of(driver) == "CompleteCommit"


def test_a_coordinator_that_was_replaced_gives_up() -> None:
    driver = Driver()
    an_ended_transaction(driver)
    outcomes = {P0: ErrorCode.TRANSACTION_COORDINATOR_FENCED, P1: ErrorCode.NONE}
    driver.report(driver.markers.pop(), outcomes)
    driver.advance_to(driver.now + 10 * FIRST_RETRY_MS)
    assert not driver.markers
    assert state_of(driver) == "PrepareCommit"


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [1, 2])
def test_a_restart_between_decision_and_markers_asks_for_all_of_them_again(
    commit: bool, version: int
) -> None:
    driver = Driver()
    an_ended_transaction(driver, commit=commit, version=version)
    (before,) = driver.markers
    driver.report(before, {P0: ErrorCode.NONE})
    driver.restart()
    (after,) = driver.markers
    assert after.coordinator_epoch == before.coordinator_epoch + 1
    assert after.partitions == (P0, P1)
    assert after.commit is commit
    assert (after.producer_id, after.producer_epoch) == (before.producer_id, before.producer_epoch)
    assert after.transaction_version == before.transaction_version
    driver.write_markers()
    assert state_of(driver) == ("CompleteCommit" if commit else "CompleteAbort")


def test_a_restart_between_the_two_records_of_an_empty_abort_completes_it() -> None:
    driver = Driver()
    producer = Producer(driver)
    assert producer.init() is ErrorCode.NONE
    assert producer.end(commit=False) is ErrorCode.NONE
    driver.restart(keep=len(driver.log) - 1)
    assert not driver.markers
    assert state_of(driver) == "CompleteAbort"


def test_a_restart_after_the_completion_asks_for_nothing() -> None:
    driver = Driver()
    an_ended_transaction(driver)
    driver.write_markers()
    driver.restart()
    assert not driver.markers
