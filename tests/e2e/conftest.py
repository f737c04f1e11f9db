"""The broker that real clients talk to: one `ottla serve` process for the whole run.

`--bootstrap HOST:PORT` runs the same claims against another broker: that is how they were checked
on Apache Kafka, and how a difference is seen. Tests that need a broker with settings of their own
start an Ottla in any case.

Every topic is named by the test that uses it, so tests do not see each other's.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from testkit.clients import BY_NAME, IN_MAKE_TEST
from testkit.clients.base import Client
from testkit.clients.confluent import Confluent
from testkit.process import BrokerProcess
from testkit.raw import PATIENCE_SECONDS, Connection
from testkit.secured import SecuredBroker
from testkit.waiting import stretched

# A new group would wait three seconds for more members: tests start many groups.
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bootstrap", help="run against this broker instead of a fresh Ottla")
    parser.addoption(
        "--secure",
        action="store_true",
        help="clients log in over SASL_SSL, at an Ottla that checks ACLs",
    )
    parser.addoption(
        "--client",
        action="append",
        choices=sorted(BY_NAME),
        help="run the claims about clients with this one (may be repeated)",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`client` is each client in turn; `producing` and `consuming` are every pair of them."""
    names = metafunc.config.getoption("--client", default=None) or IN_MAKE_TEST
    for argument in ("client", "producing", "consuming"):
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, names, indirect=True)


SECURED: dict[str, SecuredBroker] = {}
"""The brokers whose clients log in, by the address at which the tests look at them."""


class Topics(Protocol):
    """Makes a topic with a name of its own."""

    def __call__(self, partitions: int = 1, **configs: str) -> str: ...


class Eventually(Protocol):
    """Checks a claim that another broker may need a moment for, and Ottla may not."""

    def __call__(self, claim: Callable[[], bool]) -> bool: ...


class OwnBroker(Protocol):
    """Starts an Ottla with settings of its own."""

    def __call__(self, settings: Mapping[str, str] | None = None) -> BrokerProcess: ...


@pytest.fixture(scope="session")
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Where the broker under test listens. It must end the run without a traceback in its log."""
    given: str | None = request.config.getoption("--bootstrap", default=None)
    if given is not None:
        yield given
        return
    kind = SecuredBroker if request.config.getoption("--secure", default=False) else BrokerProcess
    with kind(tmp_path_factory.mktemp("broker"), SETTINGS) as broker:
        if isinstance(broker, SecuredBroker):
            SECURED[broker.bootstrap] = broker
        yield broker.bootstrap
        assert broker.stop() == 0
        assert broker.tracebacks() == []


@pytest.fixture
def eventually(request: pytest.FixtureRequest) -> Eventually:
    """Ottla's image has caught up when it answers; Apache Kafka's follows a moment later."""
    patience = 0.0 if request.config.getoption("--bootstrap", default=None) is None else 10.0

    def check(claim: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + stretched(patience)
        while not claim():
            if time.monotonic() >= deadline:
                return False
        return True

    return check


@pytest.fixture(scope="session")
def admin_connection(bootstrap: str) -> Iterator[Connection]:
    with Connection(bootstrap) as connection:
        yield connection


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Names that nobody has used on any broker."""
    base = request.node.originalname.removeprefix("test_")[:80]
    numbers = count()
    return lambda: f"{base}-{uuid4().hex[:8]}-{next(numbers)}"


@pytest.fixture
def new_topic(admin_connection: Connection, new_name: Callable[[], str]) -> Iterator[Topics]:
    """Makes topics, and deletes them after the test."""
    made: list[str] = []

    def make(partitions: int = 1, **configs: str) -> str:
        name = new_name()
        create_topic(admin_connection, name, partitions, configs)
        made.append(name)
        return name

    yield make
    for name in made:
        admin_connection.ask(
            DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000), DeleteTopicsResponse, 5
        )


@pytest.fixture
def topic(new_topic: Topics) -> str:
    """A topic of one partition with default configs."""
    return new_topic()


@pytest.fixture
def connection(bootstrap: str) -> Iterator[Connection]:
    with Connection(bootstrap) as connection:
        yield connection


@pytest.fixture
def connect(bootstrap: str) -> Iterator[Callable[[], Connection]]:
    """Opens as many connections as a test wants."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Connection(bootstrap))


@pytest.fixture
def client(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Client]:
    yield from _client(request, bootstrap)


@pytest.fixture
def producing(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Client]:
    yield from _client(request, bootstrap)


@pytest.fixture
def consuming(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Client]:
    yield from _client(request, bootstrap)


@pytest.fixture
def time_setting_client(client: Client, bootstrap: str) -> Client:
    """The client itself, where it lets a program choose timestamps."""
    return client if client.sets_timestamps else Confluent(bootstrap)


def _client(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Client]:
    kind = BY_NAME[request.param]
    secured = SECURED.get(bootstrap)
    if secured is None:
        client = kind(bootstrap)
    else:
        client = kind(secured.where("SASL_SSL"), secured.login(kind.logs_in_with))
    yield client
    client.close()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[OwnBroker]:
    """Starts an Ottla with settings of its own; it must not leave a traceback in its log."""
    with ExitStack() as stack:
        started: list[BrokerProcess] = []

        def start(settings: Mapping[str, str] | None = None) -> BrokerProcess:
            folder = tmp_path / f"broker-{len(started)}"
            broker = stack.enter_context(BrokerProcess(folder, settings))
            started.append(broker)
            return broker

        yield start
        for broker in started:
            assert broker.tracebacks() == []


def create_topic(
    connection: Connection, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Create a topic and wait until all of its partitions are led."""
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in (configs or {}).items()
        ],
    )
    answer = connection.ask(CreateTopicsRequest(topics=[wanted]), CreateTopicsResponse, 7)
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message
    # Apache Kafka answers a moment before its partitions are there.
    wanted_offsets = ListOffsetsTopic(
        name=name,
        partitions=[
            ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)
        ],
    )
    request = ListOffsetsRequest(replica_id=-1, topics=[wanted_offsets])
    deadline = time.monotonic() + stretched(PATIENCE_SECONDS)
    while True:
        offsets = connection.ask(request, ListOffsetsResponse, 7).topics[0].partitions
        if not any(partition.error_code for partition in offsets):
            return
        assert time.monotonic() < deadline, offsets


def is_unknown(connection: Connection, name: str) -> bool:
    """True if there is no such topic."""
    return describe(connection, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def describe(connection: Connection, name: str) -> MetadataResponseTopic:
    """What Metadata says about one topic, which is not created by asking."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    return connection.ask(request, MetadataResponse, 12).topics[0]
