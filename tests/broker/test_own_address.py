"""What a broker on all interfaces is called by clients elsewhere."""

import asyncio
import socket
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ottla.broker.metadata import own_address
from ottla.broker.metadata.own_address import outward_address, own_host
from ottla.config.listeners import is_loopback
from tests.broker.nodes import running


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """One whose /etc/hosts says `127.0.0.1 localhost shop`."""
    monkeypatch.setattr(socket, "getfqdn", lambda: "localhost")
    monkeypatch.setattr(socket, "gethostname", lambda: "shop")
    monkeypatch.setattr(own_address, "outward_address", lambda: None)
    return monkeypatch


def test_it_is_the_machines_name(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(socket, "getfqdn", lambda: "shop.example.org")
    machine.setattr(own_address, "outward_address", lambda: "10.0.0.7")
    assert own_host() == "shop.example.org"


def test_in_place_of_localhost_it_is_the_address_that_routes_outward(
    machine: pytest.MonkeyPatch,
) -> None:
    machine.setattr(own_address, "outward_address", lambda: "10.0.0.7")
    assert own_host() == "10.0.0.7"


def test_a_machine_without_a_route_has_the_name_it_was_given(machine: pytest.MonkeyPatch) -> None:
    assert own_host() == "shop"
    machine.setattr(socket, "gethostname", lambda: "localhost")
    assert own_host() == "localhost"


def test_the_outward_address_is_none_that_means_this_machine_only() -> None:
    found = outward_address()
    assert found is None or not is_loopback(found)


def started(folder: Path, settings: dict[str, str]) -> list[dict[str, object]]:
    """What a broker says when it starts."""

    async def live() -> None:
        async with running(folder, settings):
            pass

    with capture_logs() as said:
        asyncio.run(live())
    return [dict(line) for line in said]


def test_the_start_says_where_it_listens_and_what_is_advertised(
    tmp_path: Path, machine: pytest.MonkeyPatch
) -> None:
    machine.setattr(own_address, "outward_address", lambda: "10.0.0.7")
    said = started(tmp_path, {"listeners": "PLAINTEXT://0.0.0.0:0"})
    (line,) = [line for line in said if line["event"] == "broker started"]
    assert line["listeners"] == "PLAINTEXT://0.0.0.0:1"
    assert line["advertised"] == "PLAINTEXT://10.0.0.7:1"
    assert [line for line in said if line["log_level"] == "warning"] == []


@pytest.mark.parametrize(
    ("settings", "warnings"),
    [
        ({"listeners": "PLAINTEXT://0.0.0.0:0"}, 1),
        ({"listeners": "PLAINTEXT://:0"}, 1),
        ({"listeners": "PLAINTEXT://127.0.0.1:0"}, 0),
        (
            {
                "listeners": "PLAINTEXT://0.0.0.0:0",
                "advertised.listeners": "PLAINTEXT://localhost:9092",
            },
            0,  # someone wants it so
        ),
    ],
)
def test_a_name_that_sends_clients_elsewhere_to_themselves_is_warned_about(
    tmp_path: Path, machine: pytest.MonkeyPatch, settings: dict[str, str], warnings: int
) -> None:
    machine.setattr(socket, "gethostname", lambda: "localhost")
    said = started(tmp_path, settings)
    told = [str(line) for line in said if line["log_level"] == "warning"]
    assert len(told) == warnings
    assert all("advertised.listeners" in line for line in told)
