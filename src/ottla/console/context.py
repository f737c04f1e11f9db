"""What all requests of one console share."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ottla.console.display import (
    count_text,
    one_line,
    safe_text,
    seconds_text,
    size_text,
    time_text,
)
from ottla.console.settings import ConsoleSettings

if TYPE_CHECKING:
    from ottla.console.history import History
    from ottla.registry.decoding import Decoder

SEARCHES_AT_ONCE: Final = 4
"""Each may hold tens of megabytes of records."""


def _finalize(value: object) -> object:
    """Every expression of a template goes through here: control characters become visible."""
    return safe_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def templates() -> Environment:
    """The templates; everything in them is escaped."""
    environment = Environment(
        loader=PackageLoader("ottla.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=count_text,
        size=size_text,
        time=time_text,
        seconds=seconds_text,
        line=one_line,
        part=lambda text: quote(str(text), safe=""),
    )
    return environment


@dataclass
class Console:
    """One console."""

    settings: ConsoleSettings
    templates: Environment
    history: History | None = None
    decoder: Decoder | None = None
    searches: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(SEARCHES_AT_ONCE))
