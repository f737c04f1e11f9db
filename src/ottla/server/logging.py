"""Structured logs on stderr: for people on a terminal, JSON lines otherwise."""

import logging
import sys
from typing import TextIO

import structlog


def configure_logging(stream: TextIO | None = None) -> None:
    """Set up the process's logging. A program that embeds a broker keeps its own."""
    out = sys.stderr if stream is None else stream
    for_people = out.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(
                fmt="%H:%M:%S" if for_people else "iso", utc=not for_people
            ),
            *(
                [_console()]
                if for_people
                else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=True,
    )


def _console() -> structlog.dev.ConsoleRenderer:
    # The fancier formatters print local variables, which hold clients' data.
    plain = structlog.dev.plain_traceback
    return structlog.dev.ConsoleRenderer(pad_event_to=0, exception_formatter=plain)


def quiet_logging() -> None:
    """Warnings and worse, for a program that embeds a broker and configured nothing itself."""
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="%H:%M:%S"),
                _console(),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        )
