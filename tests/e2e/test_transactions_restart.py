"""kill -9 of the broker in the middle of transactions: what was decided happens, once."""

from pathlib import Path

import pytest

from ottla.wire.batch import headers
from ottla.wire.messages.end_txn import EndTxnRequest
from testkit.process import BrokerProcess
from testkit.raw import Connection
from tests.e2e.asking_groups import committed, coordinated
from tests.e2e.asking_transactions import (
    NEW_END,
    Producer,
    commit_offset,
    describe_transaction,
    end,
    ended,
    fetch_committed,
    new_transactional_producer,
    send,
    visible,
    wait_until_complete,
)
from tests.e2e.conftest import OwnBroker, create_topic

# Few, so that a restart of the broker is short.
SETTINGS = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}
TOPICS = ("first", "second", "third")
ROUNDS = 3


@pytest.fixture
def broker(own_broker: OwnBroker) -> BrokerProcess:
    broker = own_broker(SETTINGS)
    with Connection(broker.bootstrap) as connection:
        for topic in TOPICS:
            create_topic(connection, topic)
    return broker


def restart(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


def what_is_read(broker: BrokerProcess) -> list[list[str]]:
    with Connection(broker.bootstrap) as connection:
        return [visible(fetch_committed(connection, topic)) for topic in TOPICS]


def write_everywhere(connection: Connection, producer: Producer, value: str) -> None:
    for topic in TOPICS:
        assert send(connection, producer, topic, 0, value) == 0
    group = coordinated(connection, "group")
    assert commit_offset(connection, producer, group, "first", int(value)) == 0


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_is_carried_out_after_a_restart(broker: BrokerProcess, commit: bool) -> None:
    """The broker is killed as soon as its answer is here: the markers may be there or not."""
    for round_ in range(ROUNDS):
        with Connection(broker.bootstrap) as connection:
            producer = new_transactional_producer(connection, f"round-{round_}")
            write_everywhere(connection, producer, str(round_))
            assert end(connection, producer, commit=commit).error_code == 0
            broker.kill()
        broker.start()
        with Connection(broker.bootstrap) as connection:
            wait_until_complete(connection, f"round-{round_}")
            offset = committed(connection, coordinated(connection, "group"), "first")
        read = [str(number) for number in range(round_ + 1)] if commit else []
        assert what_is_read(broker) == [read] * len(TOPICS)
        assert offset == (round_ if commit else -1)


def test_a_lost_answer_is_all_or_nothing(broker: BrokerProcess) -> None:
    """The broker is killed without waiting for its answer: both outcomes are right, halves not."""
    read: list[str] = []
    for round_ in range(ROUNDS):
        name, value = f"round-{round_}", str(round_)
        with Connection(broker.bootstrap) as connection:
            producer = new_transactional_producer(connection, name)
            write_everywhere(connection, producer, value)
            request = EndTxnRequest(
                transactional_id=name,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                committed=True,
            )
            connection.send(request, NEW_END)
            broker.kill()
        broker.start()
        with Connection(broker.bootstrap) as connection:
            # Asked again, as a client does that has lost its connection.
            after = ended(connection, producer, commit=True)
            assert after.epoch == producer.epoch + 1
        read.append(value)
        assert what_is_read(broker) == [read] * len(TOPICS)


def cut_last_batch(log: Path) -> None:
    """Take the last batch from a log, as a kill would that came before it was written."""
    with log.open("r+b") as file:
        *_, (at, _) = headers(memoryview(file.read()))
        file.truncate(at)


@pytest.mark.parametrize(("unmarked", "commit"), [(TOPICS, True), (TOPICS[1:], False)])
def test_markers_that_are_missing_are_written_after_a_restart(
    broker: BrokerProcess, unmarked: tuple[str, ...], commit: bool
) -> None:
    """The state between the decision and its markers, in all of the partitions or in some."""
    with Connection(broker.bootstrap) as connection:
        producer = new_transactional_producer(connection, "decided")
        for topic in TOPICS:
            assert send(connection, producer, topic, 0, "value") == 0
        after = ended(connection, producer, commit=commit)
    broker.kill()
    (state,) = (
        log for log in broker.data.glob("__transaction_state-*/*.log") if log.stat().st_size
    )
    cut_last_batch(state)
    for topic in unmarked:
        (log,) = broker.data.glob(f"{topic}-0/*.log")
        cut_last_batch(log)
    broker.start()
    with Connection(broker.bootstrap) as connection:
        wait_until_complete(connection, "decided")
        end_state = describe_transaction(connection, "decided")
        assert end_state.transaction_state == ("CompleteCommit" if commit else "CompleteAbort")
        assert end_state.producer_epoch == after.epoch
        found = [fetch_committed(connection, topic) for topic in TOPICS]
    assert [visible(each) for each in found] == [["value"] if commit else []] * len(TOPICS)
    # A partition that had its marker has it twice now: that is harmless, and Kafka does it too.
    assert all(each.last_stable_offset == each.high_watermark for each in found)


def test_an_open_transaction_is_still_open_after_a_restart(broker: BrokerProcess) -> None:
    with Connection(broker.bootstrap) as connection:
        producer = new_transactional_producer(connection, "open")
        write_everywhere(connection, producer, "1")
    restart(broker)
    assert what_is_read(broker) == [[], [], []]
    with Connection(broker.bootstrap) as connection:
        wait_until_complete(connection, "open")
        assert describe_transaction(connection, "open").transaction_state == "Ongoing"
        for topic in TOPICS:
            assert send(connection, producer, topic, 1, "2") == 0
        ended(connection, producer, commit=True)
    restart(broker)
    assert what_is_read(broker) == [["1", "2"]] * len(TOPICS)


def test_what_was_left_open_times_out_after_a_restart(own_broker: OwnBroker) -> None:
    broker = own_broker(SETTINGS)
    with Connection(broker.bootstrap) as connection:
        create_topic(connection, "first")
        producer = new_transactional_producer(connection, "open", timeout_ms=1_000)
        assert send(connection, producer, "first", 0, "late") == 0
    restart(broker)
    with Connection(broker.bootstrap) as connection:
        found = fetch_committed(connection, "first", max_wait_ms=15_000, min_bytes=1)
        assert found.records
        assert visible(found) == []
        assert describe_transaction(connection, "open").transaction_state == "CompleteAbort"
