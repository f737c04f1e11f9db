"""What a broker writes to stderr, and how much of it."""

from collections.abc import Iterator

import pytest
import structlog

from ottla.broker import log_level
from ottla.config.dynamic import Alteration, AlterOp
from ottla.server.logging import configure_logging, quiet_logging


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


def test_a_broker_inside_a_program_warns_and_says_no_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    structlog.reset_defaults()
    quiet_logging()
    say()
    assert heard(capsys) == ["warning", "error"]
