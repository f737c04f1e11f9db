"""Structured logs on stderr: for people on a terminal, JSON lines otherwise.

A log that cannot be written (its disk is full, its reader has gone) never keeps the broker from
doing what it was about to do: the line is lost.
"""

import logging
import sys

import structlog
from structlog.typing import Processor


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


def configure_logging() -> None:
    """Set up the process's logging. A program that embeds a broker keeps its own."""
    if sys.stderr.isatty():
        _configure(
            logging.INFO, structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False), _console()
        )
    else:
        _configure(
            logging.INFO,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        )


def quiet_logging() -> None:
    """Warnings and worse, for a program that embeds a broker and configured nothing itself."""
    if not structlog.is_configured():
        _configure(
            logging.WARNING, structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False), _console()
        )


def _configure(level: int, *processors: Processor) -> None:
    structlog.configure(
        processors=[structlog.processors.add_log_level, *processors],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: _StderrLogger(),
        cache_logger_on_first_use=True,
    )


def _console() -> structlog.dev.ConsoleRenderer:
    # The fancier formatters print local variables, which hold clients' data.
    plain = structlog.dev.plain_traceback
    return structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), pad_event_to=0, exception_formatter=plain
    )
