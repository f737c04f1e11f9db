"""`ottla topic trim`: delete a topic's oldest records (Kafka's DeleteRecords).

Rules kept here:
1. What is refused is refused before anything is deleted: an offset past the end, a partition that
   does not exist.
2. A time never deletes a record of that time or later, also while records are being written: the
   end is asked for before the time is looked up.
3. What was deleted is reported by partition, also where another partition failed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import click

from ottla.cli.group_topics import TopicChoice, chosen_partitions
from ottla.cli.options import bootstrap_option, connect, json_option, timestamp_ms
from ottla.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.cluster import TopicPartition
    from ottla.wire.errors import KafkaError


class Trim(NamedTuple):
    """What becomes of one partition: offsets from `start` up to `before` are deleted."""

    start: int
    before: int
    end: int

    @property
    def deletes(self) -> bool:
        """Whether anything is deleted."""
        return self.before > self.start


Plan: TypeAlias = "dict[TopicPartition, Trim]"


def _timestamp(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else timestamp_ms(text)
    except ValueError as problem:
        raise click.BadParameter(f"{text!r} is not {problem}.") from None


@click.command("trim")
@click.argument("name")
@click.option(
    "--before-offset",
    type=click.IntRange(0, 2**63 - 1),
    metavar="N",
    help="Delete the records before this offset.",
)
@click.option(
    "--before-timestamp",
    callback=_timestamp,
    metavar="TIME",
    help="Delete the records before the first one at or after a time: ISO 8601 (local time without "
    "a zone), or milliseconds (1769860800000ms).",
)
@click.option("--all", "everything", is_flag=True, help="Delete all records up to the end.")
@click.option(
    "--partition",
    "wanted",
    type=click.IntRange(0),
    multiple=True,
    metavar="P",
    help="Trim this partition only. May be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, without deleting it.")
@bootstrap_option
@json_option
def trim(
    name: str,
    before_offset: int | None,
    before_timestamp: int | None,
    everything: bool,
    wanted: tuple[int, ...],
    dry_run: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Delete the oldest records of the topic NAME, as DeleteRecords does; offsets do not change.

    \b
    Examples:
      ottla topic trim events --before-timestamp 2026-01-31T12:00:00Z --dry-run
      ottla topic trim events --before-offset 4711 --partition 0
      ottla topic trim events --all
    """
    from ottla.client.admin import Admin
    from ottla.wire.errors import KafkaError

    if sum((before_offset is not None, before_timestamp is not None, everything)) != 1:
        raise click.UsageError("give one of --before-offset, --before-timestamp and --all.")
    with connect(bootstrap) as client:
        admin = Admin(client)
        partitions = chosen_partitions(admin, [TopicChoice(name, wanted)])
        if before_offset is not None and not wanted and len(partitions) > 1:
            raise click.UsageError(
                f"--before-offset needs --partition: topic {name} has {len(partitions)} "
                "partitions, and each has its own offsets."
            )
        plan = _plan(admin, partitions, before_offset, before_timestamp)
        if not dry_run:
            try:
                admin.delete_records({where: item.before for where, item in plan.items()})
            except KafkaError as problem:
                done = _done(admin, plan)
                if any(item.deletes for item in done.values()):
                    _show(name, done, dry_run, as_json)
                raise _explained(problem, name) from None
    _show(name, plan, dry_run, as_json)


def _plan(
    admin: "Admin",
    partitions: "Sequence[TopicPartition]",
    before_offset: int | None,
    before_timestamp: int | None,
) -> Plan:
    from ottla.client.admin import EARLIEST, LATEST

    def offsets(spec: int) -> "dict[TopicPartition, int]":
        found = admin.list_offsets(dict.fromkeys(partitions, spec))
        return {where: found[where].offset for where in partitions}

    starts, ends = offsets(EARLIEST), offsets(LATEST)
    targets = ends
    if before_timestamp is not None:
        found = offsets(before_timestamp)
        # Where no record is that young, all up to the end are older.
        targets = {where: at if at >= 0 else ends[where] for where, at in found.items()}
    elif before_offset is not None:
        targets = dict.fromkeys(partitions, before_offset)
        for where in partitions:
            if before_offset > ends[where]:
                raise click.ClickException(
                    f"partition {where.partition} of topic {where.topic} ends before offset "
                    f"{ends[where]}, before {before_offset}; nothing was deleted"
                )
    # A start offset does not go back.
    return {
        where: Trim(starts[where], max(starts[where], targets[where]), ends[where])
        for where in partitions
    }


def _done(admin: "Admin", plan: Plan) -> Plan:
    """What was deleted of a plan that failed; nothing where the cluster does not say it."""
    from ottla.client.admin import EARLIEST
    from ottla.wire.errors import KafkaError

    try:
        now = admin.list_offsets(dict.fromkeys(plan, EARLIEST))
    except KafkaError:
        return {}
    return {where: item._replace(before=now[where].offset) for where, item in plan.items()}


def _explained(problem: "KafkaError", name: str) -> Exception:
    from ottla.wire.errors import ErrorCode

    if problem.code == ErrorCode.POLICY_VIOLATION:
        return click.ClickException(
            f"topic {name} has cleanup.policy=compact: only topics with delete can be trimmed"
        )
    if problem.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return click.ClickException(f"topic {name} is internal and cannot be trimmed")
    return problem


def _show(name: str, plan: Plan, dry_run: bool, as_json: bool) -> None:
    if as_json:
        partitions: list[Json] = [
            {
                "partition": where.partition,
                "old_start_offset": item.start,
                "start_offset": item.before,
                "end_offset": item.end,
            }
            for where, item in plan.items()
        ]
        print_json({"name": name, "dry_run": dry_run, "partitions": partitions})
        return
    print_table(
        ("partition", "deleted offsets", "start offset", "end offset"),
        [
            (
                where.partition,
                f"{item.start} to {item.before - 1}" if item.deletes else "none",
                item.before,
                item.end,
            )
            for where, item in plan.items()
        ],
    )
    trimmed = [where.partition for where, item in plan.items() if item.deletes]
    if not trimmed:
        click.echo(f"topic {name}: nothing to delete")
    elif dry_run:
        click.echo(f"topic {name}: nothing was deleted yet; this was a dry run")
    else:
        some = "partition" if len(trimmed) == 1 else "partitions"
        click.echo(f"trimmed topic {name}, {some} {', '.join(map(str, trimmed))}")
