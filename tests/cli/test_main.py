import os
import socket
import subprocess
import sys
from importlib.metadata import version

import click
import pytest

from ottla.cli.main import COMMANDS, command
from ottla.embedded import Broker

from .conftest import Ottla


def commands(found: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words of every command."""
    if not isinstance(found, click.Group):
        return [path]
    context = click.Context(found)
    below = [path] if path else []
    for name in found.list_commands(context):
        child = found.get_command(context, name)
        assert child is not None
        below += commands(child, (*path, name))
    return below


@pytest.mark.parametrize("words", commands(command), ids=" ".join)
def test_every_command_explains_itself_with_an_example(
    offline: Ottla, words: tuple[str, ...]
) -> None:
    ran = offline(*words, "--help")
    assert ran.status == 0
    assert "Example" in ran.out
    assert f"ottla {' '.join(words)}" in ran.out


def test_the_help_lists_all_commands(offline: Ottla) -> None:
    out = offline("--help").out
    for name, help_text in COMMANDS.items():
        assert name in out
        assert help_text in out


def test_a_mistyped_command_gets_the_nearest_right_one(offline: Ottla) -> None:
    ran = offline("srve")
    assert ran.status == 2
    assert "No such command 'srve'. Did you mean 'serve'?" in ran.err


def test_the_version_is_the_packages(offline: Ottla) -> None:
    assert offline("--version").out == f"ottla {version('ottla')}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("nosuch",),
        ("--nosuch",),
        ("topic", "nosuch"),
        ("topic", "create"),
        ("topic", "create", "a", "--partitions", "x"),
        ("topic", "create", "a", "--set", "x"),
        ("topic", "alter", "a"),
        ("produce", "a", "--acks", "2"),
        ("produce", "a", "--header", "x"),
        ("produce", "a", "--key-separator", ""),
        ("consume", "a", "--from", "yesterday"),
        ("config", "describe", "cluster", "a"),
        ("config", "describe", "broker", "a"),
        ("config", "alter", "topic", "a", "x"),
        ("group", "list", "--state", "Sleeping"),
        ("group", "delete-offsets", "g"),
        ("group", "reset-offsets", "g", "--to-latest"),
        ("group", "reset-offsets", "g", "--all-topics"),
        ("group", "reset-offsets", "g", "--all-topics", "--topic", "a", "--to-latest"),
        ("group", "reset-offsets", "g", "--all-topics", "--to-latest", "--to-earliest"),
        ("group", "reset-offsets", "g", "--topic", "a:x", "--to-latest"),
        ("group", "reset-offsets", "g", "--topic", ":1", "--to-latest"),
        ("group", "reset-offsets", "g", "--all-topics", "--to-timestamp", "yesterday"),
        ("txn", "list", "--state", "Sleeping"),
        ("txn", "abort", "--topic", "a", "--partition", "0"),
        ("txn", "abort", "--topic", "a", "--partition", "0", "--producer-id", "1"),
        ("txn", "abort", "--topic", "a", "--start-offset", "1"),
        ("topic", "list", "--bootstrap", "foo:abc"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line_and_status_2(offline: Ottla, words: tuple[str, ...]) -> None:
    ran = offline(*words)
    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    assert "--help)" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "list"),
        ("topic", "delete", "a"),
        ("produce", "a", __file__),
        ("consume", "a"),
        ("config", "describe", "topic", "a"),
        ("group", "describe", "a"),
        ("txn", "list"),
    ],
    ids=lambda words: words[0],
)
def test_without_a_broker_one_line_says_what_to_do(offline: Ottla, words: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    ran = offline(*words, "--bootstrap", address)
    assert ran.status == 1
    assert ran.err.count("\n") == 1
    assert f"cannot reach a broker at {address}: Connection refused" in ran.err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_a_closed_stdin_or_stdout_is_an_empty_one(closed: str, ottla_broker: Broker) -> None:
    script = f'"{sys.executable}" -m ottla topic list {closed}'
    environment = {**os.environ, "OTTLA_BOOTSTRAP": ottla_broker.bootstrap_servers}
    ran = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_what_the_protocol_cannot_hold_is_one_line_and_status_2(ottla: Ottla, topic: str) -> None:
    ran = ottla("config", "describe", "topic", "x" * 40_000)
    assert ran.status == 2
    assert ran.err.startswith("ottla: value out of range for the Kafka protocol: ")
    assert ran.err.count("\n") == 1


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    script = (
        "import sys; from ottla.cli.main import main; main(['serve', '--help']);"
        "heavy = ['rich', 'msgspec', 'prometheus_client', 'asyncio', 'ottla.client'];"
        "print(*[name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stderr == "\n"
