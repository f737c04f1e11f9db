"""How many clients are let in, and what happens to the others."""

import resource

import pytest

from ottla.embedded import Broker
from ottla.server import server as server_module
from ottla.server.server import _FileShares
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from testkit.raw import Connection
from tests.server.inside import connections, on_loop, server, until

BROKERS = 4
METADATA = 12


def allow(connection: Connection, count: int) -> None:
    """Set max.connections for all brokers."""
    setting = AlterableConfig(name="max.connections", config_operation=0, value=str(count))
    resource_ = AlterConfigsResource(resource_type=BROKERS, resource_name="", configs=[setting])
    answer = connection.ask(
        IncrementalAlterConfigsRequest(resources=[resource_]), IncrementalAlterConfigsResponse, 1
    )
    assert answer.responses[0].error_code == 0


def ask(connection: Connection) -> None:
    connection.send(MetadataRequest(topics=[]), METADATA)


def test_a_client_too_many_waits_until_one_leaves() -> None:
    with Broker(max_connections=2) as broker:
        first, second, third = (Connection(broker.bootstrap_servers) for _ in range(3))
        for each in (first, second, third):
            ask(each)
        first.receive(MetadataResponse, METADATA)
        second.receive(MetadataResponse, METADATA)
        assert len(connections(broker)) == 2
        first.close()
        third.receive(MetadataResponse, METADATA)
        second.close()
        third.close()


def test_a_listener_that_is_full_does_not_keep_others_from_accepting() -> None:
    config = {
        "listeners": "ONE://127.0.0.1:0,TWO://127.0.0.1:0",
        "listener.security.protocol.map": "ONE:PLAINTEXT,TWO:PLAINTEXT",
        "inter.broker.listener.name": "ONE",
        "listener.name.two.max.connections": "1",
    }
    with Broker(config=config) as broker:
        ports = [sock.getsockname()[1] for sock, _ in server(broker)._listening]
        one, two = (f"127.0.0.1:{port}" for port in ports)
        first, second = Connection(two), Connection(two)
        for each in (first, second):
            ask(each)
        first.receive(MetadataResponse, METADATA)
        until(broker, lambda: "TWO" in server(broker)._full_listeners)
        with Connection(one) as other:
            ask(other)
            other.receive(MetadataResponse, METADATA)
        assert len([each for each in connections(broker) if each.listener == "TWO"]) == 1
        first.close()
        second.receive(MetadataResponse, METADATA)
        second.close()


def test_a_raised_limit_lets_in_those_who_wait() -> None:
    with (
        Broker(max_connections=1) as broker,
        Connection(broker.bootstrap_servers) as first,
        Connection(broker.bootstrap_servers) as second,
    ):
        ask(first)
        first.receive(MetadataResponse, METADATA)
        ask(second)
        until(broker, lambda: not server(broker)._accepting)
        allow(first, 10)
        on_loop(broker, server(broker)._sweep_idle)
        second.receive(MetadataResponse, METADATA)


def test_no_more_clients_are_let_in_a_second_than_the_rate_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "RATE_SECONDS", 3600.0)
    with Broker(max_connection_creation_rate=2) as broker:
        clients = [Connection(broker.bootstrap_servers) for _ in range(3)]
        for each in clients:
            ask(each)
        until(broker, lambda: not server(broker)._accepting)
        assert len(connections(broker)) == 2
        assert on_loop(broker, lambda: server(broker)._resume is not None)
        on_loop(broker, lambda: setattr(server(broker), "_second_ends", 0.0))
        on_loop(broker, server(broker)._accept_again)
        for each in clients:
            each.receive(MetadataResponse, METADATA)
            each.close()


def test_without_files_to_spare_clients_wait_and_the_logs_keep_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Broker() as broker, Connection(broker.bootstrap_servers) as first:
        ask(first)
        first.receive(MetadataResponse, METADATA)
        monkeypatch.setattr(server(broker)._files, "last_for_connections", 0)
        with (
            Connection(broker.bootstrap_servers) as second,
            Connection(broker.bootstrap_servers) as third,
        ):
            until(broker, lambda: not server(broker)._accepting)
            on_loop(broker, server(broker)._accept_again)
            assert not on_loop(broker, lambda: server(broker)._accepting)
            assert len(connections(broker)) == 2
            monkeypatch.undo()
            on_loop(broker, server(broker)._accept_again)
            for each in (second, third):
                ask(each)
                each.receive(MetadataResponse, METADATA)


@pytest.mark.parametrize("limit", [256, 1024, 20_000, 1 << 20])
def test_connections_take_files_from_the_logs_but_never_all(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    shares = _FileShares(most_for_logs=limit * 7 // 8)
    for connections_ in range(0, shares.last_for_connections, max(1, limit // 100)):
        logs = shares.for_logs(connections_)
        assert limit // 8 <= logs or logs >= 1024
        assert logs + connections_ <= limit - 20 or logs <= max(limit // 8, 1024)


def test_few_connections_take_nothing_from_the_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20_000, 20_000))
    shares = _FileShares(most_for_logs=10_000)
    assert shares.unshared > 9_000
    assert shares.for_logs(shares.unshared) == 10_000
    assert shares.for_logs(shares.unshared + 1) == 9_999
