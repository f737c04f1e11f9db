"""Transactions on a broker of their own: some of the tests lose what its coordinators know."""

from collections.abc import Iterator

import pytest

from ottla.client import Admin, Client, KafkaError
from ottla.client.admin import LATEST
from ottla.client.txn_admin import OpenTransaction, TxnAdmin
from ottla.embedded import Broker
from ottla.wire.errors import ErrorCode

from .transactions import (
    AN_HOUR_MS,
    forget_all_transactions,
    init_producer_id,
    now_ms,
    write_in_transaction,
)


@pytest.fixture(scope="module")
def ottla_broker() -> Iterator[Broker]:
    with Broker(transaction_state_log_num_partitions=3) as broker:
        yield broker


@pytest.fixture
def transactions(client: Client) -> TxnAdmin:
    return TxnAdmin(client)


def open_in(transactions: TxnAdmin, admin: Admin, topic: str) -> list[OpenTransaction]:
    return transactions.open_transactions(admin.partitions(topic))


def hanging_in(transactions: TxnAdmin, admin: Admin, topic: str) -> list[OpenTransaction]:
    return transactions.find_hanging(
        admin.partitions(topic), older_than_ms=AN_HOUR_MS, now_ms=now_ms()
    )


def test_an_open_transaction_is_listed_and_described(
    client: Client, admin: Admin, transactions: TxnAdmin, topic: str
) -> None:
    producer_id = write_in_transaction(client, topic, topic)
    (listed,) = transactions.list_transactions(states=["Ongoing"], producer_ids=[producer_id])
    assert (listed.transactional_id, listed.producer_id) == (topic, producer_id)
    described = transactions.describe_transaction(topic)
    assert (described.state, described.timeout) == ("Ongoing", 600_000)
    assert described.partitions == admin.partitions(topic)[:1]
    assert described.started is not None
    assert 0 <= now_ms() - described.started < AN_HOUR_MS


def test_a_transaction_is_listed_by_its_age_and_state(
    client: Client, transactions: TxnAdmin, topic: str
) -> None:
    write_in_transaction(client, topic, topic)

    def listed(**filters: int | list[str]) -> bool:
        found = transactions.list_transactions(**filters)  # type: ignore[arg-type]  # one or the other
        return topic in [item.transactional_id for item in found]

    assert listed()
    assert listed(states=["Ongoing", "Empty"])
    assert not listed(states=["CompleteCommit"])
    assert not listed(older_than_ms=AN_HOUR_MS)


def test_a_transactional_id_that_is_not_there_is_unknown(transactions: TxnAdmin) -> None:
    with pytest.raises(KafkaError, match="there is no transactional id nobody") as caught:
        transactions.describe_transaction("nobody")
    assert caught.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert transactions.describe_transactions(["nobody"]) == {}


def test_a_partition_knows_where_its_open_transactions_begin(
    client: Client, admin: Admin, transactions: TxnAdmin, topic: str
) -> None:
    first = write_in_transaction(client, topic, f"{topic}.first")
    second = write_in_transaction(client, topic, f"{topic}.second")
    found = open_in(transactions, admin, topic)
    assert [(item.producer.producer_id, item.producer.txn_start_offset) for item in found] == [
        (first, 0),
        (second, 1),
    ]


def test_a_transaction_that_its_coordinator_knows_does_not_hang(
    client: Client, admin: Admin, transactions: TxnAdmin, topic: str
) -> None:
    write_in_transaction(client, topic, topic)
    (found,) = open_in(transactions, admin, topic)
    elsewhere = found._replace(partition=admin.partitions(topic)[1])
    coordinated = transactions.coordinated([found, elsewhere])
    assert {item: info.transactional_id for item, info in coordinated.items()} == {found: topic}
    assert hanging_in(transactions, admin, topic) == []


def test_a_transaction_that_no_coordinator_knows_hangs_until_it_is_aborted(
    client: Client, admin: Admin, transactions: TxnAdmin, topic: str
) -> None:
    producer_id = write_in_transaction(client, topic, topic)
    forget_all_transactions(client)
    (found,) = hanging_in(transactions, admin, topic)
    assert found.producer.producer_id == producer_id
    where = found.partition
    stable = admin.list_offsets({where: LATEST}, read_committed=True)[where].offset
    assert stable == 0
    transactions.abort(found)
    assert open_in(transactions, admin, topic) == []
    stable = admin.list_offsets({where: LATEST}, read_committed=True)[where].offset
    assert stable == admin.list_offsets({where: LATEST})[where].offset == 2


def test_a_young_transaction_does_not_hang_yet(
    client: Client, admin: Admin, transactions: TxnAdmin, topic: str
) -> None:
    write_in_transaction(client, topic, topic)
    forget_all_transactions(client)
    partitions = admin.partitions(topic)
    for age, count in ((AN_HOUR_MS, 1), (3 * AN_HOUR_MS, 0)):
        found = transactions.find_hanging(partitions, older_than_ms=age, now_ms=now_ms())
        assert len(found) == count


def test_a_transactional_id_that_begins_again_does_not_end_what_hangs(
    client: Client, admin: Admin, transactions: TxnAdmin, topic: str
) -> None:
    write_in_transaction(client, topic, topic)
    forget_all_transactions(client)
    init_producer_id(client, topic)
    assert len(hanging_in(transactions, admin, topic)) == 1


def test_an_older_epoch_ends_nothing(
    client: Client, admin: Admin, transactions: TxnAdmin, topic: str
) -> None:
    init_producer_id(client, topic)
    write_in_transaction(client, topic, topic)
    (found,) = open_in(transactions, admin, topic)
    older = found._replace(producer=found.producer._replace(epoch=found.producer.epoch - 1))
    with pytest.raises(KafkaError) as caught:
        transactions.abort(older)
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert open_in(transactions, admin, topic) == [found]
