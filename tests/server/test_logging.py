"""What a broker writes to stderr, and how much of it."""

import json
from collections.abc import Iterator

import pytest
import structlog

from ottla.broker.metrics import log_level
from ottla.config.dynamic import Alteration, AlterOp
from ottla.server.logging import configure_logging, quiet_logging
from ottla.server.run import run_broker
from ottla.server.worker import Heart


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    before, level = structlog.get_config(), log_level._Root.level
    yield
    structlog.configure(**before)
    log_level.set_level(level)


def say() -> None:
    log = structlog.get_logger()
    log.debug("said by debug")
    log.info("said by info")
    log.warning("said by warning")
    log.error("said by error")


def heard(capsys: pytest.CaptureFixture[str]) -> list[str]:
    said = capsys.readouterr().err
    return [word for word in ("debug", "info", "warning", "error") if f"said by {word}" in said]


def test_the_level_changes_while_the_broker_runs(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging()
    for level, expected in (
        (None, ["info", "warning", "error"]),
        ("ERROR", ["error"]),
        ("TRACE", ["debug", "info", "warning", "error"]),
        ("FATAL", []),
    ):
        if level is not None:
            wanted = [Alteration("root", AlterOp.SET, level)]
            log_level.alter_loggers(wanted, validate_only=False)
        say()
        assert heard(capsys) == expected


def test_no_color_is_for_lines_on_a_terminal_without_colours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    for value, is_coloured in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", value)
        configure_logging()
        structlog.get_logger().info("said")
        said = capsys.readouterr().err
        assert "said" in said
        assert ("\x1b" in said) == is_coloured


def test_a_broker_inside_a_program_warns_and_says_no_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    structlog.reset_defaults()
    quiet_logging()
    say()
    assert heard(capsys) == ["warning", "error"]


def test_a_broker_of_several_on_one_machine_names_itself_in_every_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(broker=7)
    structlog.get_logger().info("said by info", leader=3)
    told = json.loads(capsys.readouterr().err)
    assert (told["event"], told["broker"], told["leader"]) == ("said by info", 7, 3)


def test_a_worker_is_a_broker_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[int | None] = []

    async def run(*_: object) -> int:
        return 0

    monkeypatch.setattr("ottla.server.logging.configure_logging", named.append)
    monkeypatch.setattr("ottla.server.run._run", run)
    monkeypatch.setattr("ottla.server.run.raise_open_files_limit", lambda: None)
    assert run_broker({"node.id": "4"}, Heart(1.0)) == 0
    assert run_broker({"node.id": "4"}) == 0
    assert named == [4, None]
