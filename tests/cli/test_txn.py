"""On a broker of their own: some of the tests lose what its coordinators know."""

import io
from collections.abc import Iterator

import pytest

from ottla.client import Admin, Client
from ottla.client.txn_admin import TxnAdmin
from ottla.embedded import Broker
from tests.client.transactions import forget_all_transactions, write_in_transaction

from .conftest import Ottla


@pytest.fixture(scope="module")
def ottla_broker() -> Iterator[Broker]:
    with Broker(transaction_state_log_num_partitions=3) as broker:
        yield broker


@pytest.fixture
def producer_id(client: Client, topic: str) -> int:
    """The producer of an open transaction with the topic's name as transactional id."""
    return write_in_transaction(client, topic, topic)


@pytest.fixture
def hanging(client: Client, producer_id: int) -> int:
    """The producer of a transaction that no coordinator knows."""
    forget_all_transactions(client)
    return producer_id


def are_open(client: Client, topic: str) -> bool:
    return bool(TxnAdmin(client).open_transactions(Admin(client).partitions(topic)))


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_an_open_transaction_is_listed(ottla: Ottla, topic: str, producer_id: int) -> None:
    listed = ottla("txn", "list", "--state", "ongoing", "--json").json
    assert isinstance(listed, list)
    (found,) = [item for item in listed if item["transactional_id"] == topic]
    assert (found["state"], found["producer_id"]) == ("Ongoing", producer_id)
    assert topic in ottla("txn", "list").out
    assert topic not in ottla("txn", "list", "--state", "CompleteAbort").out
    assert topic not in ottla("txn", "list", "--older-than", "3600").out


def test_describe_tells_where_a_transaction_begins(
    ottla: Ottla, topic: str, producer_id: int
) -> None:
    described = ottla("txn", "describe", topic, "--json").json
    assert isinstance(described, dict)
    assert (described["state"], described["timeout_ms"]) == ("Ongoing", 600_000)
    assert described["producer_id"] == producer_id
    assert described["partitions"] == [{"topic": topic, "partition": 0, "start_offset": 0}]
    text = ottla("txn", "describe", topic).out
    assert f"{topic} is Ongoing" in text
    assert "timeout 600 seconds" in text
    assert "open since 2" in text


def test_an_id_that_is_not_there_is_one_line(ottla: Ottla) -> None:
    ran = ottla("txn", "describe", "nobody")
    assert ran.status == 1
    assert ran.err == "ottla: there is no transactional id nobody (see: ottla txn list)\n"


def test_what_its_coordinator_will_end_does_not_hang(
    ottla: Ottla, topic: str, producer_id: int
) -> None:
    ran = ottla("txn", "find-hanging", "--topic", topic)
    assert ran.out == "no hanging transactions (open for more than 900 seconds)\n"


def test_a_hanging_transaction_is_found_with_how_to_end_it(
    ottla: Ottla, topic: str, hanging: int
) -> None:
    found = ottla("txn", "find-hanging", "--topic", topic, "--json").json
    assert isinstance(found, list)
    (item,) = found
    assert (item["topic"], item["partition"], item["start_offset"]) == (topic, 0, 0)
    assert item["producer_id"] == hanging
    advice = f"ottla txn abort --topic {topic} --partition 0 --start-offset 0"
    assert advice in ottla("txn", "find-hanging", "--topic", topic).out
    assert topic in ottla("txn", "find-hanging").out
    assert topic not in ottla("txn", "find-hanging", "--older-than", "86400").out


def test_a_hanging_transaction_is_aborted_when_that_is_confirmed(
    ottla: Ottla, client: Client, topic: str, hanging: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("txn", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    answer(monkeypatch, "n\n")
    ran = ottla(*words)
    assert (ran.status, ran.out) == (1, "")
    assert f"open transaction of producer {hanging} (epoch 0) from offset 0" in ran.err
    assert ran.err.endswith("ottla: nothing was changed\n")
    assert are_open(client, topic)
    answer(monkeypatch, "y\n")
    ran = ottla(*words)
    assert ran.status == 0
    assert (
        ran.out
        == f"aborted the transaction of producer {hanging} in partition 0 of topic {topic}\n"
    )
    assert "It does not hang" not in ran.err
    assert not are_open(client, topic)


def test_a_transaction_can_be_named_by_its_producer(
    ottla: Ottla, client: Client, topic: str, hanging: int
) -> None:
    words = ("txn", "abort", "--topic", topic, "--partition", "0", "--yes", "--json")
    ran = ottla(*words, "--producer-id", str(hanging), "--producer-epoch", "1")
    assert ran.status == 1
    assert "has no such open transaction: those that it has begin at 0" in ran.err
    ran = ottla(*words, "--producer-id", str(hanging), "--producer-epoch", "0")
    assert isinstance(ran.json, dict)
    assert ran.json["producer_id"] == hanging
    assert not are_open(client, topic)
    ran = ottla(*words, "--start-offset", "0")
    assert "has no such open transaction: it has none" in ran.err


def test_who_aborts_what_does_not_hang_is_warned(
    ottla: Ottla, client: Client, topic: str, producer_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, "n\n")
    ran = ottla("txn", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    assert f"It does not hang: it belongs to transactional id {topic}, which is Ongoing" in ran.err
    assert are_open(client, topic)
