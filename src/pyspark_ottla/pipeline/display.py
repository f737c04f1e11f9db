"""Progress for people: a live table in a terminal, plain lines elsewhere, a summary at the end."""

import sys
from collections.abc import Callable, Sequence
from time import localtime, strftime
from typing import TYPE_CHECKING

from pyspark_ottla.pipeline.progress import QueryProgress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

LINE_SECONDS = 5.0
ANY_WIDTH = 100_000


class Display:
    """Shows how the queries go, whenever it is called."""

    def __init__(
        self, console: "Console | None" = None, caption: Callable[[], str] | None = None
    ) -> None:
        """`caption` gives a line of the caller's own, to be shown with the table."""
        from rich.console import Console

        width = None if sys.stdout.isatty() else ANY_WIDTH
        self.console = console or Console(width=width, highlight=False)
        self._caption = caption or str
        self._live: Live | None = None
        self._last_line = 0.0

    def say(self, text: str) -> None:
        """One line."""
        self.console.print(text, markup=False)

    def show(self, queries: Sequence[QueryProgress], now: float) -> None:
        """The state of now."""
        from rich.live import Live

        if self.console.is_terminal:
            if self._live is None:
                self._live = Live(console=self.console, auto_refresh=False, transient=True)
                self._live.start()
            shown = table(queries, now)
            shown.caption = self._caption() or None
            self._live.update(shown, refresh=True)
        elif now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            clock = strftime("%H:%M:%S", localtime())
            if caption := self._caption():
                self.say(f"{clock} {caption}")
            for query in queries:
                self.say(f"{clock} {line(query, now)}")

    def stop(self) -> None:
        """End the live table."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def summary(self, queries: Sequence[QueryProgress], now: float) -> None:
        """The last word."""
        self.stop()
        self.console.print(table(queries, now))


def table(queries: Sequence[QueryProgress], now: float) -> "Table":
    """All queries."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("sink", "to"):
        shown.add_column(title, overflow="fold")
    for title in ("rows", "rows/s", "lag", "late", "batches", "seconds"):
        shown.add_column(title, justify="right")
    for query in queries:
        shown.add_row(
            query.name,
            Text(query.target),  # SQL in it may look like markup: topic a.{split(b, '[/]')[0]}
            f"{query.rows:,}",
            f"{query.rate(now):,.0f}",
            _lag(query),
            f"{query.late:,}",
            f"{query.batches:,}",
            f"{(query.ended or now) - query.started:.1f}",
        )
    return shown


def line(query: QueryProgress, now: float) -> str:
    """One query."""
    late = f", {query.late:,} late" if query.late else ""
    state = " (done)" if query.ended is not None else ""
    return (
        f"{query.name}: {query.rows:,} rows, {query.rate(now):,.0f} rows/s, "
        f"lag {_lag(query)}{late}{state}"
    )


def _lag(query: QueryProgress) -> str:
    return "-" if query.lag is None else f"{query.lag:,}"
