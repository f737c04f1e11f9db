"""DescribeTransactions and ListTransactions."""

from ottla.coordinator.shard import CoordinatorRecord
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_transactions import TopicData, TransactionState
from ottla.wire.messages.list_transactions import ListTransactionsRequest

from .driver import FIRST_PRODUCER_ID, Driver, a_producer


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


def test_records_of_other_versions_are_passed_over_when_loading() -> None:
    driver = Driver()
    a_producer(driver)
    driver.log.insert(0, CoordinatorRecord(b"\0\x09what a newer broker wrote", b"\0\0"))
    driver.restart()
    assert listed(driver, ListTransactionsRequest()) == ["t"]
