import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import structlog

from ottla.cli.main import main
from ottla.client import Client
from ottla.embedded import Broker


class Ran(NamedTuple):
    """How a command ended and what it said."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> object:
        """The one document that it printed."""
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.splitlines()]


Ottla = Callable[..., Ran]


@pytest.fixture(autouse=True)
def logging_stays_as_it_was() -> Iterator[None]:
    """`ottla serve` sets up the logging of its process, which here is that of all tests."""
    was_configured, before = structlog.is_configured(), structlog.get_config()
    yield
    if was_configured:
        structlog.configure(**before)
    else:
        structlog.reset_defaults()


@pytest.fixture
def offline(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ottla:
    """Runs the `ottla` command where no broker is."""
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        status = main(arguments)
        return Ran(status, *capsys.readouterr())

    return run


@pytest.fixture
def ottla(offline: Ottla, ottla_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Ottla:
    """Runs the `ottla` command against a broker."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", ottla_broker.bootstrap_servers)
    return offline


@pytest.fixture
def topic(ottla: Ottla, request: pytest.FixtureRequest) -> str:
    """A topic with two partitions, named by the test."""
    name = re.sub("[^a-zA-Z0-9._-]", ".", f"cli.{request.node.name}")
    assert ottla("topic", "create", name, "--partitions", "2").status == 0
    return name


@pytest.fixture
def client(ottla_broker: Broker) -> Iterator[Client]:
    with Client(ottla_broker.bootstrap_servers) as client:
        yield client
