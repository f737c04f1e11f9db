"""The message browser: seek, filter, tail. Everything that was asked is in the URL.

Rules kept here:
1. With `hide_values` nothing of keys, values and headers is shown, nor can be searched for: an
   answer to "contains" would tell them letter by letter.
2. Few searches run at once; one that finds no place says so.
"""

from datetime import UTC, datetime
from typing import NamedTuple

from starlette.responses import Response

from ottla.client import Admin
from ottla.console.calls import BadRequest, ConsoleCall
from ottla.console.decoding import decoded
from ottla.console.display import FORMATS, Shown, one_line, shown
from ottla.console.search import (
    FoundRecord,
    RecordFilter,
    SearchResult,
    SearchStart,
    read_positions,
    search,
)

LIMITS = (10, 25, 50, 100, 200)
STARTS = ("newest", "oldest", "offset", "time")
LIVE_SECONDS = 2
MANY_PARTITIONS = 64
"""Above it, one partition is shown unless all are asked for."""


class RecordRow(NamedTuple):
    """A record as the list shows it."""

    partition: int
    offset: int
    timestamp: int
    key: str
    value: Shown | None
    headers: int


def show(call: ConsoleCall) -> Response:
    """The page, or with `rows=1` its table alone."""
    topic = call.path("topic")
    start = _start(call)
    limit = call.number("limit", 50, 1, LIMITS[-1])
    form = call.text("format", "auto")
    if form not in FORMATS:
        raise BadRequest(f"format must be one of {', '.join(FORMATS)}")
    hidden = call.console.settings.hide_values
    wanted = (
        RecordFilter()
        if hidden
        else RecordFilter(call.text("key"), call.text("value"), call.text("header"))
    )
    if not call.console.searches.acquire(timeout=2):
        raise BadRequest("other searches are running; try again in a moment")
    try:
        with call.cluster.client() as client:
            partitions = [each.partition for each in Admin(client).partitions(topic)]
            chosen = _chosen(call, partitions)
            result = search(client, topic, chosen, start, limit, wanted)
    finally:
        call.console.searches.release()
    lines = [_line(call, each, form) for each in result.found]
    template = "message_rows.html" if call.text("rows") == "1" else "messages.html"
    return call.render(
        template,
        name=topic,
        partitions=len(partitions),
        partition=call.text("partition", "all" if len(chosen) > 1 else str(chosen[0])),
        start=start,
        given=call.text("at") if start.kind in ("offset", "time") else "",
        limit=limit,
        form=form,
        formats=FORMATS,
        starts=STARTS,
        limits=LIMITS,
        wanted=wanted,
        result=result,
        summary=summary(result),
        lines=lines,
        live=call.text("live") == "1" and start.kind == "newest",
        live_seconds=LIVE_SECONDS,
    )


def _start(call: ConsoleCall) -> SearchStart:
    kind, given = call.text("from", "newest"), call.text("at").strip()
    if kind == "offset":
        return SearchStart(kind, call.number("at", 0))
    if kind == "time":
        return SearchStart(kind, read_time(given))
    if kind == "at":
        try:
            return SearchStart(kind, positions=read_positions(given))
        except ValueError:
            raise BadRequest("at must be positions like 0:17,1:4") from None
    if kind not in STARTS:
        raise BadRequest(f"from must be one of {', '.join(STARTS)}")
    return SearchStart(kind)


def read_time(text: str) -> int:
    """Milliseconds of an ISO 8601 time (UTC where it has no zone), or of a plain number."""
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        return max(int(at.timestamp() * 1000), 0)
    except (ValueError, OverflowError, OSError):
        raise BadRequest(
            "the time must be like 2026-01-31T12:00:00 (UTC), or milliseconds since 1970"
        ) from None


def _chosen(call: ConsoleCall, partitions: list[int]) -> list[int]:
    text = call.text("partition")
    if text == "all" or (not text and len(partitions) <= MANY_PARTITIONS):
        return partitions
    number = call.number("partition", 0)
    if number not in partitions:
        raise BadRequest(f"there is no partition {number}: there are 0 to {len(partitions) - 1}")
    return [number]


def _line(call: ConsoleCall, found: FoundRecord, form: str) -> RecordRow:
    record = found.record
    if call.console.settings.hide_values:
        return RecordRow(found.partition, record.offset, record.timestamp, "hidden", None, 0)
    key = shown(decoded(call.console, record.key, form), form, 200)
    value = shown(decoded(call.console, record.value, form), form, 1000)
    return RecordRow(
        found.partition,
        record.offset,
        record.timestamp,
        one_line(key.text, 40),
        value,
        len(record.headers),
    )


def summary(result: SearchResult) -> str:
    """How far it looked, in a sentence."""
    what = {
        "end": "up to the end",
        "limit": "until there were enough",
        "records": "then its budget of records was used up",
        "bytes": "then its budget of bytes was used up",
        "time": "then its time was up",
    }[result.stopped_by]
    return (
        f"Looked at {result.records:,} records ({result.size / (1 << 20):,.1f} MiB) "
        f"in {result.seconds:.2f} s, {what}."
    )
