"""`ottla group reset-offsets`: move where a group continues reading.

Rules kept here:
1. Nothing is changed without --execute.
2. A group with members is refused: they would commit over what is set here.
3. An offset that the partition does not have becomes the nearest one that it has, and is reported.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from ottla.cli.group_share import is_share_group
from ottla.cli.group_topics import TopicChoice, chosen_partitions, topics_option
from ottla.cli.options import bootstrap_option, connect, json_option, timestamp_ms
from ottla.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from ottla.client import Client
    from ottla.client.admin import Admin
    from ottla.client.cluster import TopicPartition
    from ottla.client.group_admin import GroupAdmin

RESETTABLE = ("Empty", "Dead")
"""The states of a group without members."""


class Target(NamedTuple):
    """Where to: the option's name, and its number where it has one."""

    kind: str
    number: int = 0


def parse_timestamp(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> int | None:
    """Read what --to-timestamp says."""
    try:
        return None if text is None else timestamp_ms(text)
    except ValueError as problem:
        raise click.BadParameter(f"{text!r} is not {problem}.") from None


@click.command("reset-offsets")
@click.argument("group")
@topics_option
@click.option(
    "--all-topics", is_flag=True, help=("All partitions with committed offsets of the group.")
)
@click.option("--to-earliest", is_flag=True, help="Reset to the log start offset.")
@click.option("--to-latest", is_flag=True, help="Reset to the log end offset.")
@click.option("--to-offset", type=click.IntRange(0), metavar="N", help="Reset to this offset.")
@click.option(
    "--to-timestamp",
    callback=parse_timestamp,
    metavar="TIME",
    help="Reset to the first record at or after a time: ISO 8601 (local time without a zone), or "
    "milliseconds (1769860800000ms).",
)
@click.option(
    "--shift-by",
    type=int,
    metavar="N",
    help="Shift forward by N offsets, or back if N is negative.",
)
@click.option(
    "--share", "as_share", is_flag=True, help="If the group does not exist, create a share group."
)
@click.option(
    "--execute", is_flag=True, help=("Execute the reset; without this option, only show the plan.")
)
@bootstrap_option
@json_option
def reset_offsets(
    group: str,
    topics: tuple[TopicChoice, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_timestamp: int | None,
    shift_by: int | None,
    as_share: bool,
    execute: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Reset the committed offsets of GROUP; a dry run, unless --execute is given.

    The group must have no active members. A group that does not exist is created. Of a share group
    the start offsets are reset: what was acknowledged after them is delivered again.

    \b
    Examples:
      ottla group reset-offsets billing --topic orders --to-earliest
      ottla group reset-offsets billing --topic orders:0,2 --to-timestamp 2026-01-31T12:00:00Z
      ottla group reset-offsets billing --all-topics --shift-by -100 --execute
    """
    from ottla.client.admin import Admin
    from ottla.client.group_admin import GroupAdmin
    from ottla.client.share_groups import ShareGroupAdmin

    target = _target(to_earliest, to_latest, to_offset, to_timestamp, shift_by)
    if bool(topics) == all_topics:
        raise click.UsageError("give either --topic or --all-topics.")
    with connect(bootstrap) as client:
        admin, groups = Admin(client), GroupAdmin(client)
        exists = _check_state(groups, group)
        shares = as_share or (exists and is_share_group(client, group))
        committed = _start_offsets(client, group) if shares else _committed(groups, group)
        if all_topics:
            partitions = _committed_partitions(client, group, committed)
        else:
            partitions = chosen_partitions(admin, topics)
        plan = _plan(admin, partitions, target, committed)
        if execute and shares:
            ShareGroupAdmin(client).alter_start_offsets(group, plan)
        elif execute:
            groups.commit_offsets(group, plan)
    _show(group, exists, committed, plan, execute, as_json)


def _target(
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_timestamp: int | None,
    shift_by: int | None,
) -> Target:
    given = [Target("earliest")] if to_earliest else []
    given += [Target("latest")] if to_latest else []
    numbers = {"offset": to_offset, "timestamp": to_timestamp, "shift": shift_by}
    given += [Target(kind, number) for kind, number in numbers.items() if number is not None]
    if len(given) != 1:
        raise click.UsageError(
            "give one of --to-earliest, --to-latest, --to-offset, --to-timestamp and --shift-by."
        )
    return given[0]


def _committed(groups: "GroupAdmin", group: str) -> "dict[TopicPartition, int]":
    return {partition: own.offset for partition, own in groups.committed_offsets(group).items()}


def _start_offsets(client: "Client", group: str) -> "dict[TopicPartition, int]":
    """Those of a share group, as far as it has begun."""
    from ottla.client.share_groups import ShareGroupAdmin

    found = ShareGroupAdmin(client).start_offsets(group)
    return {partition: own.offset for partition, own in found.items() if own.offset is not None}


def _check_state(groups: "GroupAdmin", group: str) -> bool:
    """Refuse a group that has members; True if there is a group at all."""
    from ottla.client.group_admin import UnknownGroup

    try:
        state = groups.describe_group(group).state
    except UnknownGroup:
        return False
    if state not in RESETTABLE:
        raise click.ClickException(
            f"group {group} is {state}: offsets can be reset only while it has no members "
            f"(see: ottla group describe {group})"
        )
    return True


def _committed_partitions(
    client: "Client", group: str, committed: "Mapping[TopicPartition, int]"
) -> "list[TopicPartition]":
    led = client.led(committed)
    for topic, partition in sorted(set(committed) - set(led)):
        click.echo(
            f"ottla: partition {partition} of topic {topic} has no leader or was deleted; skipped",
            err=True,
        )
    if not led:
        raise click.ClickException(
            f"group {group} has committed no offsets that could be reset (name topics with --topic)"
        )
    return led


def _plan(
    admin: "Admin",
    partitions: "Sequence[TopicPartition]",
    target: Target,
    committed: "Mapping[TopicPartition, int]",
) -> "dict[TopicPartition, int]":
    """The new offset of each partition."""
    from ottla.client.admin import EARLIEST, LATEST

    def offsets(spec: int) -> "dict[TopicPartition, int]":
        found = admin.list_offsets(dict.fromkeys(partitions, spec))
        return {partition: found[partition].offset for partition in partitions}

    match target.kind:
        case "earliest":
            return offsets(EARLIEST)
        case "latest":
            return offsets(LATEST)
        case "timestamp":
            ends = offsets(LATEST)
            found = offsets(target.number)
            # No record is that young: what comes next will be.
            return {item: at if at >= 0 else ends[item] for item, at in found.items()}
        case "offset":
            wanted = dict.fromkeys(partitions, target.number)
        case _:
            wanted = _shifted(partitions, target.number, committed)
    return _clamped(wanted, offsets(EARLIEST), offsets(LATEST))


def _shifted(
    partitions: "Sequence[TopicPartition]",
    by: int,
    committed: "Mapping[TopicPartition, int]",
) -> "dict[TopicPartition, int]":
    for topic, partition in sorted(set(partitions) - set(committed)):
        raise click.ClickException(
            f"nothing to shift: no offset is committed for partition {partition} of topic {topic}"
        )
    return {partition: committed[partition] + by for partition in partitions}


def _clamped(
    wanted: "Mapping[TopicPartition, int]",
    starts: "Mapping[TopicPartition, int]",
    ends: "Mapping[TopicPartition, int]",
) -> "dict[TopicPartition, int]":
    plan = {}
    for partition, offset in wanted.items():
        plan[partition] = min(max(offset, starts[partition]), ends[partition])
        if plan[partition] != offset:
            click.echo(
                f"ottla: partition {partition.partition} of topic {partition.topic} has no offset "
                f"{offset}: it begins at {starts[partition]} and ends before {ends[partition]}",
                err=True,
            )
    return plan


def _show(
    group: str,
    exists: bool,
    committed: "Mapping[TopicPartition, int]",
    plan: "Mapping[TopicPartition, int]",
    executed: bool,
    as_json: bool,
) -> None:
    rows = [
        (*partition, committed.get(partition), offset) for partition, offset in sorted(plan.items())
    ]
    if as_json:
        partitions: list[Json] = [
            {"topic": topic, "partition": partition, "from": old, "to": new}
            for topic, partition, old, new in rows
        ]
        print_json(
            {"group": group, "existed": exists, "executed": executed, "partitions": partitions}
        )
        return
    print_table(("topic", "partition", "from", "to"), rows)
    if executed:
        click.echo(f"reset the offsets of group {group}" + ("" if exists else ", a new group"))
    else:
        click.echo(
            "dry run: nothing was changed, do it with --execute"
            + ("" if exists else f" (there is no group {group} yet)")
        )
