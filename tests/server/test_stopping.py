"""How a broker ends: cleanly, whatever is going on, and soon."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.embedded import Broker
from ottla.log.storage.folder import CLEAN_SHUTDOWN
from ottla.server.connection import Connection as ServedConnection
from ottla.server.server import Server
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from testkit.process import BrokerProcess, wait_until_ready
from testkit.raw import Connection
from testkit.waiting import stretched
from tests.e2e.asking import FETCH, From, fetch_request
from tests.e2e.conftest import create_topic
from tests.server.inside import running, until


def test_a_stop_does_not_wait_for_fetches(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker, Connection(broker.bootstrap_servers) as client:
        create_topic(client, "empty")
        client.send(fetch_request(From("empty"), max_wait_ms=2**31 - 1, min_bytes=1), FETCH)
        until(broker, lambda: running(broker).node.delayed.fetches == 1)
        broker.stop()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


def test_who_was_answered_hears_it_before_the_broker_hangs_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send_soon = Server.send_soon

    def then_hang_up(server: Server, connection: ServedConnection) -> None:
        send_soon(server, connection)
        server.node.lifecycle.on_fenced()

    with Broker() as broker, Connection(broker.bootstrap_servers) as client:
        monkeypatch.setattr(Server, "send_soon", then_hang_up)
        assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).api_keys
        assert client.wait_until_closed() == b""


@pytest.fixture
def nohup_is_off() -> Iterator[None]:
    """Children of a test run under nohup would ignore SIGHUP, too."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("nohup_is_off")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_every_signal_to_end_is_a_clean_stop(tmp_path: Path, number: signal.Signals) -> None:
    with BrokerProcess(tmp_path) as broker:
        process = broker._process
        assert process is not None
        process.send_signal(number)
        process.send_signal(number)
        assert process.wait(stretched(20)) == 0
        assert (broker.data / CLEAN_SHUTDOWN).exists()
        assert broker.tracebacks() == []


def test_under_nohup_a_closed_terminal_is_no_reason_to_end(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    process = subprocess.Popen(
        ["nohup", *broker.command()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until_ready(broker.bootstrap)
        os.kill(process.pid, signal.SIGHUP)
        with Connection(broker.bootstrap) as client:
            create_topic(client, "still-here")
    finally:
        process.terminate()
        assert process.wait(stretched(20)) == 0


def test_a_log_that_nobody_reads_stops_nothing(tmp_path: Path) -> None:
    """A pipe whose other end is closed, as under `ottla serve | head`."""
    broker = BrokerProcess(tmp_path)
    process = subprocess.Popen(broker.command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    process.stdout.close()
    try:
        wait_until_ready(broker.bootstrap)
        with Connection(broker.bootstrap) as client:
            client.send_bytes(b"\xff" * 20)  # is logged, and closed
            client.wait_until_closed()
    finally:
        process.terminate()
        assert process.wait(stretched(20)) == 0
    assert (broker.data / CLEAN_SHUTDOWN).exists()
