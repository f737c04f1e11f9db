from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ottla.client import Admin, Client, Producer, TopicPartition
from ottla.client.group_admin import GroupAdmin
from ottla.embedded import Broker
from tests.console.consoles import console


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[Client]:
    with Client(broker.bootstrap_servers) as client:
        yield client


@pytest.fixture(scope="module")
def filled(broker: Broker, client: Client) -> Broker:
    """A broker with a topic of 100 messages and a group that has read some of them."""
    Admin(client).create_topic("orders", partitions=3, settings={"retention.ms": "86400000"})
    with Producer(client) as producer:
        for number in range(100):
            producer.send(
                "orders",
                b'{"order": %d, "city": "Brno"}' % number,
                key=b"customer-%d" % (number % 7),
                headers=[("source", b"test")],
                partition=number % 3,
                timestamp=1_750_000_000_000 + number * 1000,
            )
    GroupAdmin(client).commit_offsets(
        "billing", {TopicPartition("orders", 0): 10, TopicPartition("orders", 1): 33}
    )
    return broker


@pytest.fixture(scope="module")
def pages(filled: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder: Path = tmp_path_factory.mktemp("console")
    with console(filled.bootstrap_servers, data=folder) as pages:
        yield pages
