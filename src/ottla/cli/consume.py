"""`ottla consume`: the records of topics on the standard output.

Rules kept here:
1. Without --follow it ends where the topics ended when it began; a share group has no end, and has
   ended where nothing comes for a second. With it, a broker that does not
   answer is waited for as long as it takes; a line on stderr says so.
2. What is printed is flushed before it waits for more, and before it is committed to a group.
3. Only committed records are shown unless --isolation says otherwise. Where it is not given, a line
   on stderr says so at the beginning; what was left out is said there at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import click

from ottla.cli.consume_loop import Printing, read_as_member
from ottla.cli.options import (
    PATIENCE_SECONDS,
    bootstrap_option,
    connect,
    json_option,
    timestamp_ms,
)
from ottla.cli.record_output import (
    TemplateError,
    Writer,
    json_writer,
    template_writer,
    text_writer,
)

if TYPE_CHECKING:
    from ottla.client import Client
    from ottla.client.admin import Admin
    from ottla.client.cluster import TopicPartition

    Offsets = dict[TopicPartition, int]

READS_COMMITTED = "reading committed records only (for all: --isolation read_uncommitted)"


class ConsumeStart(NamedTuple):
    """Where to begin: one of an offset, a timestamp in milliseconds, or the beginning or end."""

    kind: str
    number: int = 0


def parse_start(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> ConsumeStart | None:
    """Read what --from says."""
    if text is None:
        return None
    if text in ("beginning", "end"):
        return ConsumeStart(text)
    if text.isascii() and text.isdigit():
        return ConsumeStart("offset", int(text))
    try:
        return ConsumeStart("timestamp", timestamp_ms(text))
    except ValueError as problem:
        raise click.BadParameter(
            f"{text!r} is not beginning, end, an offset (4711), {problem}."
        ) from None


@click.command("consume")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option(
    "--from",
    "start",
    callback=parse_start,
    metavar="WHERE",
    help="beginning, end, an offset (4711), or a time: ISO 8601 (local time without a zone), or "
    "milliseconds (1769860800000ms). Used with --group only if the group has committed nothing.  "
    "[default: beginning; with --follow and no group: end]",
)
@click.option("--follow", is_flag=True, help="Wait for new records at the end, until Ctrl-C.")
@click.option("--max", "most", type=click.IntRange(1), metavar="N", help="Stop after N records.")
@click.option(
    "--partition",
    "wanted",
    type=click.IntRange(0),
    multiple=True,
    metavar="P",
    help="Read this partition only. May be repeated.",
)
@click.option(
    "--group",
    metavar="GROUP",
    help="Join this consumer group: share the partitions with its other members, start at its "
    "committed offsets, and commit what was printed. Needs Ottla or Apache Kafka 4.0.",
)
@click.option(
    "--share",
    metavar="GROUP",
    help="Join this share group: its members share the records, and each record that was printed "
    "is accepted. Needs Ottla or Apache Kafka 4.2.",
)
@click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    help="read_uncommitted also shows records of open and aborted transactions.  "
    "[default: read_committed]",
)
@click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True
)
@click.option(
    "--key-separator",
    metavar="TEXT",
    help="With text, print the key and this separator before each value.",
)
@click.option(
    "--template",
    metavar="TEXT",
    help="Format of each record, with the fields {topic} {partition} {offset} {timestamp} {time} "
    "{key} {value} {headers}, and \\n or \\t.",
)
@click.option(
    "--schema-registry",
    "registry_url",
    metavar="URL",
    help="Decode Avro, JSON Schema and Protobuf values by the schema id in them; they are printed "
    "as JSON. A user and password may be in the URL.",
)
@bootstrap_option
@json_option
def command(
    topics: tuple[str, ...],
    start: ConsumeStart | None,
    follow: bool,
    most: int | None,
    wanted: tuple[int, ...],
    group: str | None,
    share: str | None,
    isolation: str | None,
    style: str,
    key_separator: str | None,
    template: str | None,
    registry_url: str | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Print the records of topics.

    Text prints a value on each line. JSON prints one object on each line: topic, partition, offset,
    timestamp (milliseconds), key, value, headers. Where key or value are not UTF-8 the object has
    key_base64 or value_base64 instead. Only committed records are printed: --isolation
    read_uncommitted shows those of open and aborted transactions too.

    \b
    Examples:
      ottla consume events --from 2026-01-31T12:00:00Z --max 10
      ottla consume events clicks --follow --format json
      ottla consume events --group billing --follow
      ottla consume jobs --share workers --follow
      ottla consume events --schema-registry http://127.0.0.1:8081
      ottla consume events --template '{time} {key}={value}\\n'
    """
    from ottla.client.admin import Admin
    from ottla.client.group_reader import GroupReader

    writer = _writer(style == "json" or as_json, key_separator, template)
    if registry_url is not None:
        from ottla.cli.schema_output import decoding_writer

        writer = decoding_writer(writer, registry_url)
    printing = Printing(bootstrap, writer, most)
    if wanted and (len(topics) > 1 or group is not None):
        raise click.UsageError("--partition needs a single topic and no --group.")
    names = list(dict.fromkeys(topics))
    if share is not None:
        if wanted or start or isolation or group is not None:
            raise click.UsageError(
                "--share goes with none of --from, --group, --isolation and --partition: the group "
                "has settings for that (share.auto.offset.reset, share.isolation.level)."
            )
        _read_shared(bootstrap, share, names, printing, follow)
        return
    read_committed = isolation != "read_uncommitted"
    begin = start or ConsumeStart("end" if follow and group is None else "beginning")
    with connect(bootstrap) as client:
        admin = Admin(client)
        partitions = [item for name in names for item in _partitions(admin, name, wanted)]
        starts, ends = _range(admin, partitions, begin, read_committed)
        behind = _behind_open_transactions(admin, ends) if read_committed and not follow else 0
    if isolation is None:
        click.echo(f"ottla: {READS_COMMITTED}", err=True)
    until = None if follow else ends
    with connect(bootstrap, inf if follow else PATIENCE_SECONDS) as client:
        if group is None:
            hidden = _read_alone(client, starts, until, printing, read_committed)
        else:
            where = partial(_positions, bootstrap, begin, read_committed)
            member = GroupReader(
                client, group, names, where, until=until, read_committed=read_committed
            )
            hidden = read_as_member(member, group, printing)
    _tell_hidden(hidden, behind)


def _read_shared(
    bootstrap: str, group: str, names: list[str], printing: Printing, follow: bool
) -> None:
    from ottla.client.share_group_reader import ShareGroupReader

    with connect(bootstrap, inf if follow else PATIENCE_SECONDS) as client:
        for name in names:
            client.retry(partial(client.topic, name))  # one that does not exist is an error
        read_as_member(ShareGroupReader(client, group, names, ends=not follow), group, printing)


def _read_alone(
    client: Client, starts: Offsets, until: Offsets | None, printing: Printing, committed: bool
) -> int:
    from ottla.client import Reader

    with Reader(client, starts, until=until, read_committed=committed) as reader:
        printing.run(reader)
        return reader.aborted_records


def _writer(as_json: bool, key_separator: str | None, template: str | None) -> Writer:
    if template is not None:
        if as_json or key_separator is not None:
            raise click.UsageError("--template cannot be combined with JSON or --key-separator.")
        try:
            return template_writer(template)
        except TemplateError as problem:
            raise click.UsageError(f"--template: {problem}.") from None
    if as_json:
        return json_writer()
    return text_writer(
        None if key_separator is None else key_separator.replace("\\t", "\t").encode()
    )


def _partitions(admin: Admin, topic: str, wanted: Iterable[int]) -> list[TopicPartition]:
    partitions = admin.partitions(topic)
    chosen = set(wanted)
    missing = chosen - {item.partition for item in partitions}
    if missing:
        raise click.ClickException(
            f"topic {topic} has no partition {min(missing)}: it has 0 to {len(partitions) - 1}"
        )
    return [item for item in partitions if not chosen or item.partition in chosen]


def _range(
    admin: Admin, partitions: list[TopicPartition], start: ConsumeStart, read_committed: bool
) -> tuple[Offsets, Offsets]:
    """Where to begin and to end in each partition."""
    from ottla.client.admin import EARLIEST, LATEST

    def offsets(spec: int) -> Offsets:
        found = admin.list_offsets(dict.fromkeys(partitions, spec), read_committed=read_committed)
        return {partition: found[partition].offset for partition in partitions}

    first, ends = offsets(EARLIEST), offsets(LATEST)
    match start.kind:
        case "beginning":
            return first, ends
        case "end":
            return dict(ends), ends
        case "timestamp":
            found = offsets(start.number)
            # No record is that young: what comes next will be.
            return {item: at if at >= 0 else ends[item] for item, at in found.items()}, ends
        case _:
            return _clamped(dict.fromkeys(first, start.number), first, ends), ends


def _positions(
    bootstrap: str,
    start: ConsumeStart,
    read_committed: bool,
    partitions: list[TopicPartition],
    committed: Mapping[TopicPartition, int],
) -> Offsets:
    """Where a member begins in partitions: at what its group has committed, else by --from."""
    from ottla.client.admin import EARLIEST, LATEST, Admin

    with connect(bootstrap) as client:
        admin = Admin(client)
        new = [item for item in partitions if item not in committed]
        starts = _range(admin, new, start, read_committed)[0] if new else {}
        known = dict.fromkeys(committed, EARLIEST)
        first = {item: found.offset for item, found in admin.list_offsets(known).items()}
        known = dict.fromkeys(committed, LATEST)
        ends = {item: found.offset for item, found in admin.list_offsets(known).items()}
    return {**starts, **_clamped(committed, first, ends)}


def _clamped(
    wanted: Mapping[TopicPartition, int],
    first: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Offsets:
    starts = {}
    for partition, offset in wanted.items():
        starts[partition] = min(max(offset, first[partition]), ends[partition])
        if starts[partition] != offset:
            click.echo(
                f"ottla: partition {partition.partition} of topic {partition.topic} has no offset "
                f"{offset}: it begins at {first[partition]} and ends before {ends[partition]}",
                err=True,
            )
    return starts


def _behind_open_transactions(admin: Admin, ends: Offsets) -> int:
    """How many offsets are at or behind an open transaction, and so are not read."""
    from ottla.client.admin import LATEST

    found = admin.list_offsets(dict.fromkeys(ends, LATEST), read_committed=False)
    return sum(max(item.offset - ends[partition], 0) for partition, item in found.items())


def _tell_hidden(aborted: int, behind: int) -> None:
    hidden = []
    if aborted:
        hidden.append(f"{aborted:,} of aborted transactions")
    if behind:
        hidden.append(f"{behind:,} at or after the start of an open transaction")
    if hidden:
        click.echo(
            f"ottla: records not shown: {', '.join(hidden)} "
            "(--isolation read_uncommitted shows them)",
            err=True,
        )
