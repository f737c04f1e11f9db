"""Rows, rates and lag from Spark's progress documents."""

import io
from typing import Any

from rich.console import Console

from pyspark_ottla.pipeline.display import Display, line, table
from pyspark_ottla.pipeline.progress import QueryProgress


def batch(number: int, rows: int, *, end: int = 0, latest: int | None = None) -> dict[str, Any]:
    """A progress document as Spark makes it, as far as it matters."""
    source: dict[str, Any] = {"endOffset": {"t": {"0": end}}}
    if latest is not None:
        source["latestOffset"] = f'{{"t":{{"0":{latest},"1":5}}}}'
    return {
        "batchId": number,
        "numInputRows": rows,
        "durationMs": {"addBatch": 10, "triggerExecution": 12},
        "observedMetrics": {"ottla": {"rows": rows}},
        "sources": [source],
    }


def test_a_batch_counts_once_however_often_it_is_seen() -> None:
    progress = QueryProgress("out", "topic t", started=0)
    progress.see([batch(0, 10)], now=1)
    progress.see([batch(0, 10), batch(1, 5)], now=2)
    progress.see([batch(0, 10), batch(1, 5)], now=3)
    assert (progress.rows, progress.batches) == (15, 2)


def test_a_trigger_with_nothing_to_do_is_no_batch() -> None:
    progress = QueryProgress("out", "topic t", started=0)
    idle = batch(1, 0, end=7, latest=9) | {"durationMs": {"latestOffset": 1}}
    progress.see([batch(0, 10), idle], now=1)
    assert progress.batches == 1
    progress.see([idle, batch(1, 4)], now=2)
    assert (progress.rows, progress.batches) == (14, 2)


def test_the_lag_is_what_the_topics_hold_beyond_the_last_batch() -> None:
    progress = QueryProgress("out", "topic t", started=0)
    progress.see([batch(0, 10)], now=1)
    assert progress.lag is None
    progress.see([batch(1, 10, end=20, latest=100)], now=2)
    assert progress.lag == 80 + 5


def test_where_nothing_was_observed_the_sinks_own_count_is_taken() -> None:
    progress = QueryProgress("out", "topic t", started=0)
    counted = batch(0, 10) | {"observedMetrics": {}, "sink": {"numOutputRows": 8}}
    unknown = batch(1, 10) | {"observedMetrics": {}, "sink": {"numOutputRows": -1}}
    progress.see([counted, unknown], now=1)
    assert progress.rows == 8


def test_the_rate_is_of_the_last_seconds_and_in_the_end_of_all() -> None:
    progress = QueryProgress("out", "topic t", started=0)
    progress.see([batch(0, 1000)], now=1)
    assert progress.rate(1) == 1000
    for second in range(2, 40):
        progress.see([], now=second)
    assert progress.rate(39) == 0
    progress.see([batch(1, 50)], now=40)
    assert 4 < progress.rate(40) < 6
    progress.ended = 50
    assert progress.rate(60) == 21


def test_late_rows_are_counted_and_shown() -> None:
    progress = QueryProgress("out", "topic t", started=0)
    operators = [{"numRowsDroppedByWatermark": 2}, {"numRowsDroppedByWatermark": 3}, {}]
    late = batch(0, 10, end=1, latest=1) | {"stateOperators": operators}
    assert progress.see([late, batch(1, 1, end=1, latest=1)], now=5) == [
        late,
        batch(1, 1, end=1, latest=1),
    ]
    assert progress.see([late], now=6) == []
    assert progress.late == 5
    assert line(progress, 10).endswith("lag 5, 5 late")
    shown = io.StringIO()
    Console(file=shown, width=200).print(table([progress], 10))
    heads, _, row = shown.getvalue().splitlines()[:3]
    assert dict(zip(heads.split(), row.split()[:2] + row.split()[3:], strict=True))["late"] == "5"


def test_outside_a_terminal_progress_is_plain_lines_now_and_then() -> None:
    out = io.StringIO()
    display = Display(Console(file=out, width=200), caption=lambda: "hello")
    progress = QueryProgress("out", "topic t", started=0)
    progress.see([batch(0, 12_345, end=1, latest=3)], now=5)
    for tenth in range(50, 90):
        display.show([progress], now=tenth / 10)
    lines = out.getvalue().splitlines()
    assert [text[9:] for text in lines] == [
        "hello",
        "out: 12,345 rows, 2,469 rows/s, lag 7",
    ]
    progress.ended = 10
    assert line(progress, 10).endswith("(done)")
    display.summary([progress], now=10)
    assert out.getvalue().splitlines()[-1].split() == [
        *("out", "topic", "t", "12,345", "1,234", "7", "0", "1", "10.0")
    ]


def test_in_a_terminal_progress_is_one_table_that_stays_in_its_place() -> None:
    out = io.StringIO()
    display = Display(Console(file=out, width=100, force_terminal=True))
    progress = QueryProgress("out", "topic t", started=0)
    display.show([progress], now=1)
    display.show([progress], now=1.5)
    display.stop()
    assert out.getvalue().endswith("\x1b[1A\x1b[2K")
    assert "rows/s" in out.getvalue()


def test_a_target_is_shown_as_it_is() -> None:
    target = "topic parts.{split(name, '[/]')[0]}"
    shown = io.StringIO()
    query = QueryProgress("out", target, 0.0)
    Console(file=shown, width=200).print(table([query], 1.0))
    assert target in shown.getvalue()
