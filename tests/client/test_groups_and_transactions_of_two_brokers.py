"""Groups and transactional ids are spread over brokers: each is asked for its own."""

from collections.abc import Callable, Iterator

import pytest

from ottla.client import Client, TopicPartition
from ottla.client.group_admin import GroupAdmin, GroupListing
from ottla.client.txn_admin import OpenTransaction, ProducerInfo, TransactionListing, TxnAdmin
from ottla.wire.message import Message
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.wire.messages.list_transactions import TransactionState as ListedState
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker

from .fake_broker import FakeBroker


def lists(number: int) -> Callable[[Message], Message]:
    """A broker's one transactional id, with the broker's number in it."""
    state = ListedState(
        transactional_id=f"id-{number}", producer_id=number, transaction_state="Ongoing"
    )
    return lambda _: ListTransactionsResponse(transaction_states=[state])


def describes(number: int) -> Callable[[Message], Message]:
    def answer(request: Message) -> Message:
        assert isinstance(request, DescribeTransactionsRequest)
        assert request.transactional_ids == [f"id-{number}"]
        state = TransactionState(
            transactional_id=f"id-{number}",
            producer_id=number,
            transaction_state="Ongoing",
            topics=[TopicData(topic="t", partitions=[number])],
        )
        return DescribeTransactionsResponse(transaction_states=[state])

    return answer


def coordinators(request: Message) -> Message:
    assert isinstance(request, FindCoordinatorRequest)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=int(key[-1])) for key in request.coordinator_keys
        ]
    )


def groups(number: int) -> Callable[[Message], Message]:
    group = ListedGroup(group_id=f"g-{number}", group_state="Empty", group_type="classic")
    return lambda _: ListGroupsResponse(groups=[group])


def handlers(number: int) -> dict[type[Message], Callable[[Message], Message]]:
    return {
        ListGroupsRequest: groups(number),
        ListTransactionsRequest: lists(number),
        DescribeTransactionsRequest: describes(number),
        FindCoordinatorRequest: coordinators,
    }


@pytest.fixture
def client() -> Iterator[Client]:
    """A client of two brokers, numbered 1 and 2."""
    with FakeBroker(handlers(1)) as first, FakeBroker(handlers(2)) as second:
        brokers = [
            MetadataResponseBroker(node_id=number, host="127.0.0.1", port=broker.port)
            for number, broker in ((1, first), (2, second))
        ]
        for broker in (first, second):
            broker.answer(MetadataRequest, lambda _: MetadataResponse(brokers=brokers))
        with Client(first.address) as client:
            yield client


def test_the_groups_of_all_brokers_are_listed(client: Client) -> None:
    assert GroupAdmin(client).list_groups() == [
        GroupListing("g-1", "", "Empty", "classic"),
        GroupListing("g-2", "", "Empty", "classic"),
    ]


def test_the_transactions_of_all_brokers_are_listed(client: Client) -> None:
    assert TxnAdmin(client).list_transactions() == [
        TransactionListing("id-1", 1, 1, "Ongoing"),
        TransactionListing("id-2", 2, 2, "Ongoing"),
    ]


def test_each_coordinator_describes_its_own_transactions(client: Client) -> None:
    found = TxnAdmin(client).describe_transactions(["id-1", "id-2"])
    assert {key: (info.coordinator, info.partitions) for key, info in found.items()} == {
        "id-1": (1, [TopicPartition("t", 1)]),
        "id-2": (2, [TopicPartition("t", 2)]),
    }


def test_a_partition_that_its_coordinator_does_not_count_in_is_nobodys(client: Client) -> None:
    def open_in(partition: int, producer_id: int) -> OpenTransaction:
        producer = ProducerInfo(producer_id, 0, 0, 0, 0, 0)
        return OpenTransaction(TopicPartition("t", partition), producer)

    counted, not_counted, unknown = open_in(1, 1), open_in(3, 1), open_in(1, 9)
    found = TxnAdmin(client).coordinated([counted, not_counted, unknown])
    assert {item: info.transactional_id for item, info in found.items()} == {counted: "id-1"}
