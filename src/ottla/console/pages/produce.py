"""Producing one message."""

from starlette.responses import Response

from ottla.client import Admin, Producer
from ottla.console.calls import BadRequest, ConsoleCall, number

FORMATS = ("text", "hex", "null")


def form(call: ConsoleCall) -> Response:
    """The form."""
    name = call.path("topic")
    with call.cluster.client() as client:
        partitions = len(Admin(client).partitions(name))
    return call.render("produce.html", name=name, partitions=partitions, formats=FORMATS)


def _bytes(text: str, form: str, what: str) -> bytes | None:
    if form == "null":
        return None
    if form == "text":
        # A browser sends lines with CR LF.
        return text.replace("\r\n", "\n").encode()
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadRequest(f"the {what} is not hexadecimal, like 0a ff") from None


def _headers(text: str) -> list[tuple[str, bytes]]:
    found = []
    for line in text.splitlines():
        if line.strip():
            name, equals, value = line.partition("=")
            if not equals or not name.strip():
                raise BadRequest("a header must be a line like name=value")
            found.append((name.strip(), value.encode()))
    return found


def send(call: ConsoleCall) -> Response:
    """Send it, and show it."""
    name, fields = call.path("topic"), call.form
    key_form = fields.get("key_format", "null")
    value = _bytes(fields.get("value", ""), fields.get("value_format", "text"), "value")
    key = _bytes(fields.get("key", ""), key_form, "key")
    partition = number(fields.get("partition", ""), "partition", -1, -1, 2**31 - 1)
    headers = _headers(fields.get("headers", ""))
    delivered: list[tuple[int, int]] = []
    with call.cluster.client() as client:
        partitions = len(Admin(client).partitions(name))
        if partition >= partitions:
            raise BadRequest(f"there is no partition {partition}")
        with Producer(client) as producer:
            producer.send(
                name,
                value,
                key=key,
                headers=headers,
                partition=None if partition < 0 else partition,
                on_delivery=lambda at: delivered.append((at.partition, at.offset)),
            )
    ((where, offset),) = delivered
    return call.redirect(f"/topics/{name}/message", partition=where, offset=offset, sent=1)
