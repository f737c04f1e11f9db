"""The broker as a process: how it starts, refuses to start, ends, and what it then keeps."""

import signal
import subprocess
import time
from pathlib import Path

from testkit.batches import values
from testkit.process import BrokerProcess, plain_environment
from testkit.raw import Connection
from testkit.waiting import stretched
from tests.e2e.asking import EARLIEST, FETCH, From, end_offset, fetch_request, list_offset, produce
from tests.e2e.conftest import OwnBroker, create_topic

PATIENCE_SECONDS = 30
SECONDS_TO_STOP = 10


def refusal(broker: BrokerProcess, data: Path | None = None, port: int | None = None) -> str:
    """Start a second broker that cannot start; the one line it says."""
    second = BrokerProcess(broker.folder / "second")
    second.data = data or second.data
    second.port = port or second.port
    done = subprocess.run(
        second.command(),
        env=plain_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode not in (0, None)
    (line,) = (done.stdout + done.stderr).strip().splitlines()
    assert "Traceback" not in line
    return line


def test_a_data_folder_has_one_owner(own_broker: OwnBroker) -> None:
    broker = own_broker()
    assert str(broker.data) in refusal(broker, data=broker.data)
    with Connection(broker.bootstrap) as connection:
        create_topic(connection, "still-mine")


def test_a_port_has_one_owner(own_broker: OwnBroker) -> None:
    broker = own_broker()
    assert str(broker.port) in refusal(broker, port=broker.port)


def test_sigterm_ends_it_soon_with_clients_connected(own_broker: OwnBroker) -> None:
    broker = own_broker()
    with Connection(broker.bootstrap) as waiting, Connection(broker.bootstrap) as idle:
        create_topic(idle, "abandoned")
        produce(idle, "abandoned", values(b"kept"))
        waiting.send(fetch_request(From("abandoned", 1), max_wait_ms=60_000, min_bytes=1), FETCH)
        started = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - started < stretched(SECONDS_TO_STOP)
        waiting.wait_until_closed()
    assert (broker.data / ".kafka_cleanshutdown").exists()
    broker.start()
    with Connection(broker.bootstrap) as connection:
        assert end_offset(connection, "abandoned") == 1


def test_sigint_ends_it_too(own_broker: OwnBroker) -> None:
    broker = own_broker()
    assert broker.stop(signal.SIGINT) in (0, 130, -signal.SIGINT)


def test_retention_by_size_deletes_whole_segments(own_broker: OwnBroker) -> None:
    broker = own_broker(
        {
            "log.retention.check.interval.ms": "50",
            "log.initial.task.delay.ms": "0",
            "log.segment.bytes": "1048576",
            "log.retention.bytes": "2000000",
            "log.segment.delete.delay.ms": "0",
        }
    )
    with Connection(broker.bootstrap) as connection:
        create_topic(connection, "short")
        for number in range(60):
            produce(connection, "short", values(b"%d" % number + b"x" * 100_000))
        folder = broker.data / "short-0"
        deadline = time.monotonic() + stretched(PATIENCE_SECONDS)
        # Ten batches fill a segment; the two newest segments are just above the limit.
        while len(list(folder.glob("*.log"))) > 2 or list(folder.glob("*.deleted")):
            assert time.monotonic() < deadline, sorted(folder.iterdir())
            assert end_offset(connection, "short") == 60
        assert list_offset(connection, "short", EARLIEST).offset == 40
        assert sorted(int(path.stem) for path in folder.glob("*.log")) == [40, 50]
