"""Pipelines: what their last reports say of their queries."""

import time
from typing import Final, NamedTuple

from starlette.responses import Response

from ottla.client.cluster import UnknownTopic
from ottla.client.pipeline_reports import REPORT_SECONDS, PipelineReport, State, read_reports
from ottla.console.calls import ConsoleCall
from ottla.console.paging import page_of

SILENT_MS: Final = int(4 * REPORT_SECONDS * 1000)
"""A running pipeline that has not reported for so long is likely gone."""
ROWS: Final = 10
QUERIES_SHOWN: Final = 100


class PipelineRow(NamedTuple):
    """A pipeline, and how it is."""

    report: PipelineReport
    status: str


def status_of(report: PipelineReport, now_ms: int) -> str:
    """In a word: the state that it has reported, or `silent`."""
    if report.state is State.RUNNING and now_ms - report.time > SILENT_MS:
        return "silent"
    return report.state.value


def show(call: ConsoleCall) -> Response:
    """The page."""
    search = call.text("q")
    now_ms = time.time_ns() // 1_000_000
    try:
        with call.cluster.client() as client:
            reports = read_reports(client)
    except UnknownTopic:
        reports = []
    found = [each for each in reports if search.lower() in each.pipeline.lower()]
    # Those that run come first.
    found.sort(key=lambda each: (status_of(each, now_ms) != "running", each.pipeline))
    page = page_of(found, call.number("page", 1), ROWS)
    return call.render(
        "pipelines.html",
        reported=bool(reports),
        page=page,
        rows=[PipelineRow(each, status_of(each, now_ms)) for each in page.items],
        shown=QUERIES_SHOWN,
        search=search,
        now_ms=now_ms,
    )
