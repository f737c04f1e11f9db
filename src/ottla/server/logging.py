"""Structured logs on stderr: for people on a terminal, JSON lines otherwise.

A log that cannot be written (its disk is full, its reader has gone) never keeps the broker from
doing what it was about to do: the line is lost. NO_COLOR is for lines without colours.
"""

import logging
import os
import sys
from typing import Final

import structlog
from structlog.typing import EventDict, Processor

from ottla.broker.metrics.log_level import LEVELS, is_logged, set_level

_LEVEL_OF_METHODS: Final = {
    "debug": LEVELS["DEBUG"],
    "info": LEVELS["INFO"],
    "warning": LEVELS["WARN"],
    "error": LEVELS["ERROR"],
    "exception": LEVELS["ERROR"],
    "critical": LEVELS["FATAL"],
}


class _StderrLogger:
    """Writes to what is stderr now: a program that embeds a broker may change it."""

    def msg(self, message: str) -> None:
        """Write one line."""
        try:
            sys.stderr.write(message + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):  # a full disk or a closed stream is no reason to stop
            pass

    log = debug = info = warning = error = critical = exception = msg


def configure_logging(broker: int | None = None) -> None:
    """Set up the process's logging. A program that embeds a broker keeps its own.

    With a broker's id every line has it: the brokers of `--workers` write to one stderr.
    """
    named = () if broker is None else (_naming(broker),)
    if sys.stderr.isatty():
        clock = structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)
        _configure("INFO", *named, clock, _console())
    else:
        _configure(
            "INFO",
            *named,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        )


def quiet_logging() -> None:
    """Warnings and worse, for a program that embeds a broker and configured nothing itself."""
    if not structlog.is_configured():
        _configure("WARN", structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False), _console())


def _configure(level: str, *processors: Processor) -> None:
    set_level(level)
    structlog.configure(
        processors=[_drop_what_is_not_logged, structlog.processors.add_log_level, *processors],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=lambda *_: _StderrLogger(),
        cache_logger_on_first_use=True,
    )


def _naming(broker: int) -> Processor:
    def name(_: object, __: str, event: EventDict) -> EventDict:
        event["broker"] = broker
        return event

    return name


def _drop_what_is_not_logged(_: object, method: str, event: EventDict) -> EventDict:
    """The level may change while the broker runs."""
    if not is_logged(_LEVEL_OF_METHODS[method]):
        raise structlog.DropEvent
    return event


def _console() -> structlog.dev.ConsoleRenderer:
    # The fancier formatters print local variables, which hold clients' data.
    plain = structlog.dev.plain_traceback
    colors = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0, exception_formatter=plain)
