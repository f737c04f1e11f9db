"""One message in full, as far as it can be shown, and its value as a file."""

from starlette.responses import Response

from ottla.client import Reader, TopicPartition
from ottla.console.calls import BadRequest, ConsoleCall
from ottla.console.decoding import decode_problem, decoded
from ottla.console.display import FORMATS, safe_text, shown
from ottla.records import Record

SHOWN = 64 << 10
HEADERS_SHOWN = 200


def _record(call: ConsoleCall) -> tuple[TopicPartition, Record | None]:
    where = TopicPartition(call.path("topic"), call.number("partition", 0, 0, 2**31 - 1))
    offset = call.number("offset", 0)
    if not call.console.searches.acquire(timeout=2):
        raise BadRequest("other searches are running; try again in a moment")
    try:
        with (
            call.cluster.client() as client,
            Reader(client, {where: offset}, until={where: offset + 1}, max_wait=0.2) as reader,
        ):
            for _ in range(20):
                for batch in reader.poll():
                    for record in batch.records:
                        return where, record
                if reader.finished:
                    break
    finally:
        call.console.searches.release()
    return where, None


def show(call: ConsoleCall) -> Response:
    """The page."""
    where, record = _record(call)
    form = call.text("format", "auto")
    if form not in FORMATS:
        raise BadRequest(f"format must be one of {', '.join(FORMATS)}")
    hidden = call.console.settings.hide_values
    key = value = headers = None
    note = ""
    if record is not None and not hidden:
        key = shown(decoded(call.console, record.key, form), form, SHOWN)
        value = shown(decoded(call.console, record.value, form), form, SHOWN)
        headers = [
            (safe_text(name[:200]), shown(data, "auto", 1000))
            for name, data in record.headers[:HEADERS_SHOWN]
        ]
        note = decode_problem(call.console, record.value)
    return call.render(
        "message.html",
        name=where.topic,
        partition=where.partition,
        offset=call.number("offset", 0),
        record=record,
        form=form,
        formats=FORMATS,
        key=key,
        value=value,
        headers=headers,
        note=note,
    )


def download(call: ConsoleCall) -> Response:
    """The value as a file, byte for byte; never something that a browser would show."""
    if call.console.settings.hide_values:
        raise BadRequest("values are hidden")
    where, record = _record(call)
    if record is None or record.value is None:
        raise BadRequest("there is no value at this offset")
    name = f"{where.topic}-{where.partition}-{record.offset}.bin"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(record.value, headers=headers, media_type="application/octet-stream")
