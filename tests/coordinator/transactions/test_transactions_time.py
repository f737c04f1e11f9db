"""Time and transactions: timeouts, the expiry of transactional ids, deadlines over a restart."""

import pytest

from ottla.coordinator.transactions.shard import TOMBSTONES_AT_ONCE, TransactionConfig
from ottla.coordinator.transactions.timers import TransactionTimer, TransactionTimerKind
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_transactions import ListTransactionsRequest

from .driver import (
    FIRST_PRODUCER_ID,
    Driver,
    Producer,
    a_producer,
    state_of,
)

TIMEOUT = TransactionTimer(TransactionTimerKind.TRANSACTION_TIMEOUT, "t")


def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced() -> None:
    driver = Driver()
    producer = Producer(driver)
    assert producer.init(timeout_ms=5000) is ErrorCode.NONE
    assert producer.add(0) is ErrorCode.NONE
    driver.advance_to(driver.now + 4999)
    assert state_of(driver) == "Ongoing"
    driver.advance_to(driver.now + 1)
    assert state_of(driver) == "PrepareAbort"
    (markers,) = driver.markers
    assert (markers.producer_epoch, markers.commit) == (1, False)
    driver.write_markers()
    assert producer.add(0) is ErrorCode.PRODUCER_FENCED


def test_a_later_partition_gives_no_more_time() -> None:
    driver = Driver()
    producer = Producer(driver)
    assert producer.init(timeout_ms=5000) is ErrorCode.NONE
    assert producer.add(0) is ErrorCode.NONE
    driver.advance_to(driver.now + 4000)
    assert producer.add(1) is ErrorCode.NONE
    driver.advance_to(driver.now + 1000)
    assert state_of(driver) == "PrepareAbort"


def test_an_ended_transaction_does_not_time_out_and_the_next_one_has_its_own_time() -> None:
    driver = Driver()
    producer = Producer(driver)
    assert producer.init(timeout_ms=5000) is ErrorCode.NONE
    assert producer.add(0) is ErrorCode.NONE
    driver.advance_to(driver.now + 4000)
    assert producer.end(commit=True) is ErrorCode.NONE
    assert TIMEOUT not in driver.timers
    driver.write_markers()
    driver.advance_to(driver.now + 2000)
    assert state_of(driver) == "CompleteCommit"
    assert producer.add(0) is ErrorCode.NONE
    driver.advance_to(driver.now + 4999)
    assert state_of(driver) == "Ongoing"


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_that_the_broker_does_not_allow_is_refused(timeout_ms: int) -> None:
    producer = Producer(Driver())
    assert producer.init(timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_an_unused_transactional_id_is_forgotten() -> None:
    driver = Driver(
        TransactionConfig(
            transactional_id_expiration_ms=10_000,
            transaction_remove_expired_transaction_cleanup_interval_ms=1000,
        )
    )
    idle = a_producer(driver, "idle")
    done = a_producer(driver, "done")
    busy = a_producer(driver, "busy")
    assert done.add(0) is ErrorCode.NONE
    assert done.end(commit=True) is ErrorCode.NONE
    driver.write_markers()
    assert busy.add(0) is ErrorCode.NONE
    driver.advance_to(driver.now + 11_000)
    assert idle.add(0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert done.end(commit=True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert state_of(driver, "busy") == "Ongoing"
    assert idle.init(stated=True) is ErrorCode.NONE
    assert (idle.producer_id, idle.epoch) == (FIRST_PRODUCER_ID + 3, 0)


def test_a_transaction_that_is_being_ended_is_not_forgotten() -> None:
    driver = Driver(TransactionConfig(transactional_id_expiration_ms=1000))
    producer = a_producer(driver)
    assert producer.add(0) is ErrorCode.NONE
    assert producer.end(commit=True) is ErrorCode.NONE
    driver.advance_to(driver.now + 10_000_000)
    assert state_of(driver) == "PrepareCommit"


def test_many_unused_ids_are_forgotten_in_several_appends() -> None:
    driver = Driver(TransactionConfig(transactional_id_expiration_ms=1000))
    for number in range(2 * TOMBSTONES_AT_ONCE + 1):
        a_producer(driver, f"t{number}")
    result = driver.shard.expire(
        TransactionTimer(TransactionTimerKind.ID_EXPIRATION), driver.now + 1000
    )
    assert len(result.records) == TOMBSTONES_AT_ONCE
    driver.advance_to(driver.now + 4_000_000)
    assert driver.list_transactions(ListTransactionsRequest()).transaction_states == []


def test_an_open_transaction_keeps_its_deadline_over_a_restart() -> None:
    driver = Driver()
    producer = Producer(driver)
    assert producer.init(timeout_ms=5000) is ErrorCode.NONE
    assert producer.add(0) is ErrorCode.NONE
    driver.advance_to(driver.now + 3000)
    driver.restart()
    driver.advance_to(driver.now + 1999)
    assert state_of(driver) == "Ongoing"
    driver.advance_to(driver.now + 1)
    assert state_of(driver) == "PrepareAbort"


@pytest.mark.parametrize("by_ms", [-3_600_000, -30_000, 30_000, 3_600_000])
def test_a_clock_that_is_set_changes_no_timeout(by_ms: int) -> None:
    driver = Driver()
    driver.set_clock(10_000_000)
    producer = Producer(driver)
    assert producer.init(timeout_ms=5000) is ErrorCode.NONE
    assert producer.add(0) is ErrorCode.NONE
    driver.advance_to(driver.now + 1000)
    driver.set_clock(by_ms)
    driver.advance_to(driver.now + 3999)
    assert state_of(driver) == "Ongoing"
    driver.advance_to(driver.now + 1)
    assert state_of(driver) == "PrepareAbort"


def test_a_clock_that_was_set_back_gives_no_more_than_the_timeout_after_a_restart() -> None:
    driver = Driver()
    driver.set_clock(10_000_000)
    producer = Producer(driver)
    assert producer.init(timeout_ms=5000) is ErrorCode.NONE
    assert producer.add(0) is ErrorCode.NONE
    driver.set_clock(-3_600_000)
    driver.restart()
    driver.advance_to(driver.now + 5000)
    assert state_of(driver) == "PrepareAbort"
