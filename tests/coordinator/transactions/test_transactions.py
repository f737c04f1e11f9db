"""The transaction coordinator: producers, their transactions, and the replies.

What is refused with which code in which version is in `test_transactions_as_kafka` too, by the
answers of Kafka itself.
"""

import pytest
from msgspec.structs import replace

from ottla.coordinator.shard import RequestContext
from ottla.coordinator.transactions.effects import NeedsProducerId
from ottla.coordinator.transactions.records import read_record, record_of
from ottla.coordinator.transactions.shard import TransactionConfig, TransactionShard
from ottla.coordinator.transactions.state import Transaction
from ottla.coordinator.transactions.timers import TransactionTimer, TransactionTimerKind
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import TransactionState
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

from .driver import (
    FIRST_PRODUCER_ID,
    OFFSETS_PARTITION,
    Driver,
    Producer,
    a_producer,
    state_of,
)

LAST_CLIENT_EPOCH = 32766


def with_epoch(driver: Driver, producer: Producer, epoch: int) -> None:
    """As many InitProducerIds would have left it."""
    said = read_record(driver.log[-1])
    assert said is not None
    assert isinstance(said.transaction, Transaction)
    driver.log.append(record_of(replace(said.transaction, producer_epoch=epoch)))
    driver.shard.replay(driver.log[-1])
    producer.epoch = epoch


# --- producer ids


def test_a_new_transactional_id_asks_for_a_producer_id_and_decides_nothing_without() -> None:
    shard = TransactionShard(TransactionConfig(), 0)
    request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
    with pytest.raises(NeedsProducerId):
        shard.handle_init_producer_id(request, RequestContext(5), 0)
    assert shard.handle_describe("t").reply == TransactionState(
        error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id="t"
    )


def test_a_known_transactional_id_keeps_its_producer_id_with_a_higher_epoch() -> None:
    driver = Driver()
    first, second = a_producer(driver), a_producer(driver)
    assert (first.producer_id, first.epoch) == (FIRST_PRODUCER_ID, 0)
    assert (second.producer_id, second.epoch) == (FIRST_PRODUCER_ID, 1)


def test_the_new_producer_fences_the_old_one() -> None:
    driver = Driver()
    old, _new = a_producer(driver), a_producer(driver)
    assert old.add(0) is ErrorCode.PRODUCER_FENCED
    assert old.add_offsets() is ErrorCode.PRODUCER_FENCED
    assert old.end(commit=True) is ErrorCode.PRODUCER_FENCED
    assert old.init(stated=True) is ErrorCode.PRODUCER_FENCED


def test_a_producer_may_continue_with_the_epoch_it_states_and_ask_twice() -> None:
    driver = Driver()
    producer = a_producer(driver)
    retry = Producer(driver)
    retry.producer_id, retry.epoch = producer.producer_id, producer.epoch
    assert producer.init(stated=True) is ErrorCode.NONE
    assert retry.init(stated=True) is ErrorCode.NONE
    assert (producer.epoch, retry.epoch) == (1, 1)


def test_a_retry_over_a_restart_is_fenced_since_the_log_does_not_know_the_epoch_before() -> None:
    driver = Driver()
    producer = a_producer(driver)
    retry = Producer(driver)
    retry.producer_id, retry.epoch = producer.producer_id, producer.epoch
    assert producer.init(stated=True) is ErrorCode.NONE
    driver.restart()
    assert retry.init(stated=True) is ErrorCode.PRODUCER_FENCED


def test_used_up_epochs_bring_a_new_producer_id() -> None:
    driver = Driver()
    producer = a_producer(driver)
    with_epoch(driver, producer, LAST_CLIENT_EPOCH)
    assert producer.init(stated=True) is ErrorCode.NONE
    assert (producer.producer_id, producer.epoch) == (FIRST_PRODUCER_ID + 1, 0)


def test_used_up_epochs_do_not_confuse_a_retry_or_a_fenced_producer() -> None:
    # Kafka fails here with UNKNOWN_SERVER_ERROR in both cases.
    driver = Driver()
    producer = a_producer(driver)
    with_epoch(driver, producer, LAST_CLIENT_EPOCH - 1)
    retry, old = Producer(driver), Producer(driver)
    retry.producer_id, retry.epoch = producer.producer_id, producer.epoch
    old.producer_id, old.epoch = producer.producer_id, producer.epoch - 1
    assert producer.init(stated=True) is ErrorCode.NONE
    assert retry.init(stated=True) is ErrorCode.NONE
    assert (retry.producer_id, retry.epoch) == (producer.producer_id, LAST_CLIENT_EPOCH)
    assert old.init(stated=True) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("commit", [True, False])
def test_the_last_epoch_ends_and_its_retries_are_told_of_the_new_producer_id(commit: bool) -> None:
    driver = Driver()
    producer = a_producer(driver)
    with_epoch(driver, producer, LAST_CLIENT_EPOCH)
    assert producer.add(0) is ErrorCode.NONE
    retry = Producer(driver)
    retry.producer_id, retry.epoch = producer.producer_id, producer.epoch
    assert producer.end(commit=commit) is ErrorCode.NONE
    assert (producer.producer_id, producer.epoch) == (FIRST_PRODUCER_ID + 1, 0)
    (markers,) = driver.markers
    assert (markers.producer_id, markers.producer_epoch) == (FIRST_PRODUCER_ID, 32767)
    assert retry.end(commit=commit) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.add(0) is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers()
    assert retry.end(commit=commit) is ErrorCode.NONE
    assert (retry.producer_id, retry.epoch) == (producer.producer_id, 0)
    assert producer.add(0) is ErrorCode.NONE


def test_a_timeout_with_the_last_epoch_asks_for_a_producer_id() -> None:
    driver = Driver()
    producer = a_producer(driver)
    with_epoch(driver, producer, LAST_CLIENT_EPOCH)
    assert producer.add(0) is ErrorCode.NONE
    key = TransactionTimer(TransactionTimerKind.TRANSACTION_TIMEOUT, "t")
    with pytest.raises(NeedsProducerId):
        driver.shard.expire(key, driver.now)
    driver.advance_to(driver.now + driver.timers[key])
    driver.write_markers()
    assert producer.init(stated=True) is ErrorCode.NONE
    assert (producer.producer_id, producer.epoch) == (FIRST_PRODUCER_ID + 1, 0)


# --- transactions


def test_a_transaction_of_version_2_from_begin_to_end() -> None:
    driver = Driver()
    producer = a_producer(driver)
    assert producer.add(0, 1) is ErrorCode.NONE
    assert state_of(driver) == "Ongoing"
    assert producer.end(commit=True) is ErrorCode.NONE
    assert state_of(driver) == "PrepareCommit"
    (markers,) = driver.markers
    assert (markers.producer_id, markers.producer_epoch) == (FIRST_PRODUCER_ID, 1)
    assert (markers.commit, markers.transaction_version) == (True, 2)
    assert markers.partitions == (("topic", 0), ("topic", 1))
    driver.write_markers()
    assert state_of(driver) == "CompleteCommit"
    assert producer.epoch == 1
    assert producer.add(0) is ErrorCode.NONE


def test_a_transaction_of_version_1_keeps_its_epoch() -> None:
    driver = Driver()
    producer = a_producer(driver, version=1)
    for commit in (True, False, True):
        assert producer.add(0) is ErrorCode.NONE
        assert producer.end(commit=commit) is ErrorCode.NONE
        (markers,) = driver.markers
        assert (markers.producer_epoch, markers.commit) == (0, commit)
        assert markers.transaction_version == 0
        driver.write_markers()
    assert producer.epoch == 0


def test_offsets_are_a_partition_of_the_transaction() -> None:
    driver = Driver()
    producer = a_producer(driver, version=1)
    assert producer.add_offsets() is ErrorCode.NONE
    assert producer.end(commit=True) is ErrorCode.NONE
    assert driver.markers[0].partitions == (("__consumer_offsets", OFFSETS_PARTITION),)


def test_partitions_that_are_in_the_transaction_are_not_written_again() -> None:
    driver = Driver()
    producer = a_producer(driver)
    assert producer.add(0, 1) is ErrorCode.NONE
    written = len(driver.log)
    assert producer.add(1) is ErrorCode.NONE
    assert len(driver.log) == written


def test_verification_finds_what_was_added_and_adds_nothing() -> None:
    driver = Driver()
    producer = a_producer(driver)
    assert producer.add(0) is ErrorCode.NONE
    assert producer.add(0, verify=True) is ErrorCode.NONE
    assert producer.add(1, verify=True) is ErrorCode.TRANSACTION_ABORTABLE
    assert producer.add(1, verify=True) is ErrorCode.TRANSACTION_ABORTABLE


def test_a_batch_is_answered_transaction_by_transaction() -> None:
    driver = Driver()
    good, fenced = a_producer(driver, "good"), a_producer(driver, "fenced")
    a_producer(driver, "fenced")
    reply = driver.add(
        AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=producer.transactional_id,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    topics=[AddPartitionsToTxnTopic(name="topic", partitions=[0])],
                )
                for producer in (good, fenced)
            ]
        )
    )
    assert {
        result.transactional_id: result.topic_results[0]
        .results_by_partition[0]
        .partition_error_code
        for result in reply.results_by_transaction
    } == {"good": ErrorCode.NONE, "fenced": ErrorCode.PRODUCER_FENCED}
    assert state_of(driver, "good") == "Ongoing"
    assert state_of(driver, "fenced") == "Empty"


def test_an_empty_abort_of_version_2_is_over_at_once_and_raises_the_epoch() -> None:
    driver = Driver()
    producer = a_producer(driver)
    assert producer.end(commit=False) is ErrorCode.NONE
    assert producer.epoch == 1
    assert not driver.markers
    assert state_of(driver) == "CompleteAbort"


def test_an_empty_commit_is_refused() -> None:
    driver = Driver()
    assert a_producer(driver).end(commit=True) is ErrorCode.INVALID_TXN_STATE


def test_a_retry_of_an_end_gets_the_answer_that_was_lost() -> None:
    driver = Driver()
    producer = a_producer(driver)
    assert producer.add(0) is ErrorCode.NONE
    assert producer.end(commit=True, learn=False) is ErrorCode.NONE
    assert producer.end(commit=True, learn=False) is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers()
    assert producer.end(commit=False, learn=False) is ErrorCode.INVALID_TXN_STATE
    assert producer.end(commit=True) is ErrorCode.NONE
    assert producer.epoch == 1


def test_a_retry_of_an_end_gets_its_answer_over_a_restart() -> None:
    driver = Driver()
    producer = a_producer(driver)
    assert producer.add(0) is ErrorCode.NONE
    assert producer.end(commit=True, learn=False) is ErrorCode.NONE
    driver.restart()
    driver.write_markers()
    assert producer.end(commit=True) is ErrorCode.NONE
    assert producer.epoch == 1


def test_a_new_producer_aborts_what_is_open_and_then_takes_over() -> None:
    driver = Driver()
    old = a_producer(driver)
    assert old.add(0) is ErrorCode.NONE
    new = Producer(driver)
    assert new.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert new.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    (markers,) = driver.markers
    assert (markers.producer_epoch, markers.commit) == (1, False)
    driver.write_markers()
    assert old.end(commit=True) is ErrorCode.INVALID_TXN_STATE
    assert new.init() is ErrorCode.NONE
    assert new.epoch == 2
    assert old.end(commit=True) is ErrorCode.PRODUCER_FENCED


# Seen on Kafka 4.3.0 by sending the second request right behind the first.
WHILE_BEING_ENDED = [
    # EndTxn 4: the producer is looked at first.
    (4, "end 4", 0, ErrorCode.CONCURRENT_TRANSACTIONS),
    (4, "end 4 other way", 0, ErrorCode.CONCURRENT_TRANSACTIONS),
    (4, "end 4", 7, ErrorCode.PRODUCER_FENCED),
    (4, "end 4 foreign", 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (5, "end 4", 0, ErrorCode.PRODUCER_FENCED),
    (5, "end 4", 1, ErrorCode.CONCURRENT_TRANSACTIONS),
    # EndTxn 5, AddPartitionsToTxn, InitProducerId: nothing else is looked at.
    (5, "end 5", 0, ErrorCode.CONCURRENT_TRANSACTIONS),
    (5, "end 5", 1, ErrorCode.CONCURRENT_TRANSACTIONS),
    (5, "end 5", 7, ErrorCode.CONCURRENT_TRANSACTIONS),
    (5, "end 5 other way", 0, ErrorCode.CONCURRENT_TRANSACTIONS),
    (5, "end 5 foreign", 0, ErrorCode.CONCURRENT_TRANSACTIONS),
    (5, "add", 1, ErrorCode.CONCURRENT_TRANSACTIONS),
    (5, "add", 7, ErrorCode.CONCURRENT_TRANSACTIONS),
    (5, "add foreign", 1, ErrorCode.CONCURRENT_TRANSACTIONS),
    (5, "init", 0, ErrorCode.CONCURRENT_TRANSACTIONS),
    (5, "init stated", 9, ErrorCode.CONCURRENT_TRANSACTIONS),
    (5, "init stated foreign", 3, ErrorCode.CONCURRENT_TRANSACTIONS),
    # A verification looks at the producer first.
    (5, "verify", 1, ErrorCode.CONCURRENT_TRANSACTIONS),
    (5, "verify", 7, ErrorCode.PRODUCER_FENCED),
    (5, "verify foreign", 1, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
]


@pytest.mark.parametrize(("ended_with", "request_", "epoch", "code"), WHILE_BEING_ENDED)
def test_while_a_transaction_is_being_ended(
    ended_with: int, request_: str, epoch: int, code: ErrorCode
) -> None:
    driver = Driver()
    producer = a_producer(driver, version=2 if ended_with == 5 else 1)
    assert producer.add(0) is ErrorCode.NONE
    assert producer.end(commit=True) is ErrorCode.NONE
    other = Producer(driver, version=1 if "end 4" in request_ else 2)
    other.producer_id, other.epoch = producer.producer_id, epoch
    if "foreign" in request_:
        other.producer_id = 1 << 50
    match request_.split():
        case ["end", _, *rest]:
            answer = other.end(commit="other" not in rest)
        case ["add", *_]:
            answer = other.add(0)
        case ["verify", *_]:
            answer = other.add(0, verify=True)
        case _:
            answer = other.init(stated="stated" in request_)
    assert answer is code


def test_clients_that_do_not_know_producer_fenced_are_told_of_their_epoch() -> None:
    driver = Driver()
    old, _new = a_producer(driver), a_producer(driver)
    stated = InitProducerIdRequest(
        transactional_id="t",
        transaction_timeout_ms=1000,
        producer_id=old.producer_id,
        producer_epoch=7,
    )
    end = EndTxnRequest(transactional_id="t", producer_id=old.producer_id, producer_epoch=0)
    assert driver.init(stated, 3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert driver.init(stated, 4).error_code == ErrorCode.PRODUCER_FENCED
    assert driver.end(end, 1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert driver.end(end, 2).error_code == ErrorCode.PRODUCER_FENCED


def test_an_empty_transactional_id_is_an_invalid_request_everywhere() -> None:
    producer = Producer(Driver(), "")
    assert producer.init() is ErrorCode.INVALID_REQUEST
    assert producer.add(0) is ErrorCode.INVALID_REQUEST
    assert producer.add(0, verify=True) is ErrorCode.INVALID_REQUEST
    assert producer.add_offsets() is ErrorCode.INVALID_REQUEST
    assert producer.end(commit=True) is ErrorCode.INVALID_REQUEST
    described = producer.driver.describe("").transaction_states[0]
    assert described.error_code == ErrorCode.INVALID_REQUEST
