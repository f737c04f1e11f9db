from collections.abc import Iterator

import pytest

from ottla.client import Admin, Client
from ottla.embedded import Broker


@pytest.fixture
def client(ottla_broker: Broker) -> Iterator[Client]:
    with Client(ottla_broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def admin(client: Client) -> Admin:
    return Admin(client)


@pytest.fixture
def topic(admin: Admin, request: pytest.FixtureRequest) -> str:
    """A topic with three partitions, named by the test."""
    module = request.module.__name__.rpartition(".")[2]  # names of tests repeat between modules
    name = f"{module}.{request.node.name}".replace("[", ".").replace("]", "")
    admin.create_topic(name, partitions=3)
    return name
