"""Transactions that one client begins and another ends, by real requests to a real broker."""

import pytest

from ottla.client import Client, KafkaError, Reader, TopicPartition
from ottla.client.batch_sender import BatchSender, Span
from ottla.client.transactional import TransactionKey, Transactions
from ottla.embedded import Broker
from ottla.records import Record
from ottla.records.kernel import KERNEL
from ottla.wire.errors import ErrorCode

TIMEOUT_MS = 60_000


@pytest.fixture(params=[1, 2], ids=["version-1", "version-2"])
def transactions(client: Client, request: pytest.FixtureRequest) -> Transactions:
    return Transactions(client, version=request.param)


def write(
    client: Client, transactions: Transactions, key: TransactionKey, topic: str, *values: bytes
) -> BatchSender:
    """Send each value in a batch of its own, and leave the transaction open."""
    sender = BatchSender(client, transaction=(transactions, key))
    for value in values:
        records = KERNEL.encode_records([Record(0, 0, None, value)], 0, 0)
        sender.send(TopicPartition(topic, 0), records, 1, 0)
    sender.flush()
    return sender


def committed(client: Client, topic: str, until: int) -> list[bytes | None]:
    where = TopicPartition(topic, 0)
    with Reader(client, {where: 0}, until={where: until}, read_committed=True) as reader:
        return [record.value for batch in reader for record in batch.records]


def test_a_broker_of_today_has_transactions_of_version_2(client: Client) -> None:
    assert Transactions(client).version == 2
    assert Transactions(client).end_txn_version == 5


def test_another_client_commits_what_was_left_open(
    ottla_broker: Broker, client: Client, topic: str, transactions: Transactions
) -> None:
    key = transactions.begin(f"commit.{topic}", TIMEOUT_MS)
    sender = write(client, transactions, key, topic, b"a", b"b", b"c")
    assert sender.spans == {TopicPartition(topic, 0): Span(0, 2, 3)}
    with Client(ottla_broker.bootstrap_servers) as other:
        others = Transactions(other, version=transactions.version)
        for _ in range(2):  # It is asked again when an answer was lost.
            ending = others.end([key], commit=True, end_txn_version=others.end_txn_version)[key]
            assert ending.error_code is ErrorCode.NONE
    assert committed(client, topic, 4) == [b"a", b"b", b"c"]


def test_another_client_aborts_what_was_left_open(
    client: Client, topic: str, transactions: Transactions
) -> None:
    key = transactions.begin(f"abort.{topic}", TIMEOUT_MS)
    write(client, transactions, key, topic, b"a")
    version = transactions.end_txn_version
    assert transactions.end([key], commit=False, end_txn_version=version)[key].error_code == 0
    assert committed(client, topic, 2) == []
    answer = transactions.end([key], commit=True, end_txn_version=version)[key]
    assert answer.error_code is ErrorCode.INVALID_TXN_STATE


def test_many_are_ended_at_once(client: Client, topic: str, transactions: Transactions) -> None:
    keys = [transactions.begin(f"many.{number}.{topic}", TIMEOUT_MS) for number in range(5)]
    for key in keys:
        write(client, transactions, key, topic, key.transactional_id.encode())
    endings = transactions.end(keys, commit=True, end_txn_version=transactions.end_txn_version)
    assert {ending.error_code for ending in endings.values()} == {ErrorCode.NONE}
    assert committed(client, topic, 10) == [key.transactional_id.encode() for key in keys]


def test_the_next_key_is_good_for_the_next_transaction(client: Client, topic: str) -> None:
    transactions = Transactions(client)
    key = transactions.begin(f"next.{topic}", TIMEOUT_MS)
    for value in (b"a", b"b", b"c"):
        write(client, transactions, key, topic, value)
        key = transactions.end([key], commit=True, end_txn_version=5)[key].next_key
    assert committed(client, topic, 6) == [b"a", b"b", b"c"]


def test_who_takes_an_id_fences_who_had_it(
    client: Client, topic: str, transactions: Transactions
) -> None:
    key = transactions.begin(f"fence.{topic}", TIMEOUT_MS)
    write(client, transactions, key, topic, b"a")
    transactions.begin(f"fence.{topic}", TIMEOUT_MS)
    with pytest.raises(KafkaError) as caught:
        write(client, transactions, key, topic, b"b")
    assert caught.value.code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
    assert committed(client, topic, 2) == []


def test_an_id_is_taken_back_only_if_nobody_had_it_since(client: Client, topic: str) -> None:
    transactions = Transactions(client)
    first = transactions.begin(f"back.{topic}", TIMEOUT_MS)
    second = transactions.begin(f"back.{topic}", TIMEOUT_MS, of=first)
    assert second.epoch > first.epoch
    transactions.begin(f"back.{topic}", TIMEOUT_MS)
    with pytest.raises(KafkaError) as caught:
        transactions.begin(f"back.{topic}", TIMEOUT_MS, of=second)
    assert caught.value.code is ErrorCode.PRODUCER_FENCED


def test_open_transactions_are_listed_by_a_pattern(client: Client, topic: str) -> None:
    transactions = Transactions(client)
    key = transactions.begin(f"listed.{topic}.1", TIMEOUT_MS)
    assert transactions.ongoing(rf"listed\.{topic}\..*", lambda name: True) == []
    write(client, transactions, key, topic, b"a")
    found = transactions.ongoing(rf"listed\.{topic}\..*", lambda name: True)
    assert found == [key.transactional_id]
    assert transactions.ongoing(rf"listed\.{topic}\..*", lambda name: False) == []
    transactions.end([key], commit=False, end_txn_version=5)
