"""The transaction coordinator: producers, timeouts, expiry, and who is told what.

What is refused with which code in which version is in `test_transactions_as_kafka` too, by the
answers of Kafka itself.
"""

import pytest
from msgspec.structs import replace

from ottla.coordinator.shard import CoordinatorRecord, RequestContext
from ottla.coordinator.transactions import TOMBSTONES_AT_ONCE, TransactionConfig, TransactionShard
from ottla.coordinator.transactions_result import NeedsProducerId, TimerKey, TimerKind
from ottla.coordinator.transactions_state import Transaction
from ottla.coordinator.txn_records import read_record, record_of
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import TopicData, TransactionState
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest

from .transactions_driver import FIRST_PRODUCER_ID, OFFSETS_PARTITION, Driver, Producer

LAST_CLIENT_EPOCH = 32766


def a_producer(driver: Driver, transactional_id: str = "t", version: int = 2) -> Producer:
    producer = Producer(driver, transactional_id, version)
    assert producer.init() is ErrorCode.NONE
    return producer


def state_of(driver: Driver, transactional_id: str = "t") -> str:
    return driver.describe(transactional_id).transaction_states[0].transaction_state


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


def test_a_producer_may_go_on_with_the_epoch_it_states_and_ask_twice() -> None:
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
    key = TimerKey(TimerKind.TRANSACTION_TIMEOUT, "t")
    with pytest.raises(NeedsProducerId):
        driver.shard.expire(key, driver.timers[key])
    driver.advance_to(driver.timers[key])
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
        result.transactional_id: result.topic_results[0].results_by_partition[0].partition_error_code
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


# --- time


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
    result = driver.shard.expire(TimerKey(TimerKind.ID_EXPIRATION), driver.now + 1000)
    assert len(result.records) == TOMBSTONES_AT_ONCE
    driver.advance_to(driver.now + 4_000_000)
    assert driver.list_transactions(ListTransactionsRequest()).transaction_states == []


# --- questions


def test_describe_says_everything() -> None:
    driver = Driver()
    producer = a_producer(driver)
    assert producer.add(1, 0) is ErrorCode.NONE
    assert producer.add(3, topic="other") is ErrorCode.NONE
    began = driver.now
    driver.advance_to(driver.now + 5)
    (described,) = driver.describe("t").transaction_states
    assert described == TransactionState(
        transactional_id="t",
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=began,
        producer_id=FIRST_PRODUCER_ID,
        producer_epoch=0,
        topics=[
            TopicData(topic="other", partitions=[3]),
            TopicData(topic="topic", partitions=[0, 1]),
        ],
    )


def test_describe_names_the_partitions_that_still_wait_for_their_marker() -> None:
    driver = Driver()
    producer = a_producer(driver)
    assert producer.add(0, 1) is ErrorCode.NONE
    assert producer.end(commit=True) is ErrorCode.NONE
    (markers,) = driver.markers
    driver.report(markers, {markers.partitions[0]: ErrorCode.NONE})
    (described,) = driver.describe("t").transaction_states
    assert described.topics == [TopicData(topic="topic", partitions=[1])]


def listed(driver: Driver, request: ListTransactionsRequest) -> list[str]:
    reply = driver.list_transactions(request)
    return sorted(state.transactional_id for state in reply.transaction_states)


def test_list_filters_by_state_producer_and_duration() -> None:
    driver = Driver()
    a_producer(driver, "empty")
    done, open_ = a_producer(driver, "done"), a_producer(driver, "open")
    assert done.end(commit=False) is ErrorCode.NONE
    driver.advance_to(driver.now + 1000)
    assert open_.add(0) is ErrorCode.NONE
    driver.advance_to(driver.now + 1000)
    every = ListTransactionsRequest
    assert listed(driver, every()) == ["done", "empty", "open"]
    assert listed(driver, every(state_filters=["Ongoing", "Empty"])) == ["empty", "open"]
    assert listed(driver, every(producer_id_filters=[open_.producer_id])) == ["open"]
    assert listed(driver, every(duration_filter=0)) == ["done", "empty", "open"]
    assert listed(driver, every(duration_filter=1000)) == ["done", "empty"]
    assert listed(driver, every(duration_filter=2000)) == ["empty"]
    assert listed(driver, every(state_filters=["Dead", "PrepareEpochFence"])) == []


def test_list_names_the_states_that_nobody_knows() -> None:
    driver = Driver()
    a_producer(driver)
    request = ListTransactionsRequest(state_filters=["Nonsense", "Empty", "ongoing", "Nonsense"])
    reply = driver.list_transactions(request)
    assert reply.unknown_state_filters == ["Nonsense", "ongoing"]
    assert len(reply.transaction_states) == 1
    assert listed(driver, ListTransactionsRequest(state_filters=["Nonsense"])) == []


def test_list_takes_the_ids_that_fit_a_pattern() -> None:
    driver = Driver()
    a_producer(driver, "apple")
    a_producer(driver, "pear")
    reply = driver.list_transactions(ListTransactionsRequest(), lambda id_: id_.startswith("p"))
    assert [state.transactional_id for state in reply.transaction_states] == ["pear"]


# --- restarts


def test_records_of_other_versions_are_passed_over_when_loading() -> None:
    driver = Driver()
    a_producer(driver)
    driver.log.insert(0, CoordinatorRecord(b"\0\x09what a newer broker wrote", b"\0\0"))
    driver.restart()
    assert listed(driver, ListTransactionsRequest()) == ["t"]


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
