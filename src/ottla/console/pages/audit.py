"""The audit by window: what every tier has counted, and what is missing, as table and chart."""

import time
from itertools import groupby
from typing import Final, NamedTuple

import msgspec
from starlette.responses import Response

from ottla.audit.check import Row, check
from ottla.client.audit_events import read_events
from ottla.client.cluster import UnknownTopic
from ottla.console.calls import BadRequest, ConsoleCall
from ottla.console.paging import Page, page_of

SINCE: Final = {"15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400}
WINDOWS: Final = {"1s": 1, "10s": 10, "1m": 60, "10m": 600, "1h": 3600}
CHART_WINDOWS: Final = 500


class TopicAudit(NamedTuple):
    """A topic's windows, newest first, and the data of its chart."""

    topic: str
    names: list[str]
    windows: list[Row]
    missing: int
    late: int
    duplicate: int
    chart: str


def show(call: ConsoleCall) -> Response:
    """The page."""
    since, window = call.text("since", "1h"), call.text("window", "1m")
    topic = call.text("topic") or None
    if since not in SINCE or window not in WINDOWS:
        raise BadRequest("since and window must be among those of the form")
    now = time.time_ns() // 1_000_000
    begin = now - SINCE[since] * 1000
    context: dict[str, object] = {
        "since": since,
        "window": window,
        "sinces": list(SINCE),
        "windows": list(WINDOWS),
        "topic": topic or "",
    }
    try:
        with call.cluster.client() as client:
            events, unreadable = read_events(client, begin)
    except UnknownTopic:
        nothing: Page[TopicAudit] = page_of([], 1)
        return call.render("audit.html", 200, counted=False, page=nothing, notes=[], **context)
    if topic is None:
        events = [event for event in events if not event.topic.startswith("__")]
    report = check(events, now=now, since=begin, topic=topic, window_ms=WINDOWS[window] * 1000)
    notes = list(report.notes)
    if unreadable:
        notes.append(f"{unreadable} records of the audit topic are not audit events")
    found = [
        _topic_audit(name, list(rows)) for name, rows in groupby(report.rows, lambda row: row.topic)
    ]
    page = page_of(found, call.number("page", 1), 5)
    return call.render("audit.html", 200, counted=True, page=page, notes=notes, **context)


def _topic_audit(topic: str, rows: list[Row]) -> TopicAudit:
    names = [
        each.name if each.tier == "consumer" else f"{each.name} ({each.tier})"
        for each in rows[0].consumers
    ]

    def every(row: Row, what: str) -> int:
        return int(getattr(row, what)) + sum(int(getattr(each, what)) for each in row.consumers)

    drawn = rows[-CHART_WINDOWS:]
    lines: dict[str, list[int | None]] = {
        "produced": [row.produced for row in drawn],
        "stored": [row.stored for row in drawn],
    }
    for place, name in enumerate(names):
        lines[name] = [row.consumers[place].consumed for row in drawn]
    lines["missing"] = [every(row, "missing") for row in drawn]
    chart = {
        "times": [row.window // 1000 for row in drawn],
        "labels": list(lines),
        "lines": list(lines.values()),
    }
    return TopicAudit(
        topic,
        names,
        rows[::-1][:100],
        sum(every(row, "missing") for row in rows),
        sum(every(row, "late") for row in rows),
        sum(every(row, "duplicate") for row in rows),
        msgspec.json.encode(chart).decode(),
    )
