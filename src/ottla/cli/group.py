"""`ottla group`: list, describe and delete groups, and what they have committed.

A share group has no committed offsets. Its start offsets are in their place: everything before one
is done with.
"""

from typing import TYPE_CHECKING

import click

from ottla.cli.group_facts import facts_of
from ottla.cli.group_reset import reset_offsets
from ottla.cli.group_share import SHARE, delete_start_offsets, described_share_group, is_share_group
from ottla.cli.group_topics import TopicChoice, chosen_partitions, topics_option
from ottla.cli.options import AnyCase, bootstrap_option, connect, json_option
from ottla.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from ottla.client import Client
    from ottla.client.cluster import TopicPartition
    from ottla.client.group_admin import CommittedOffset
    from ottla.client.group_info import GroupInfo

TITLES = {"member_id": "member", "in_flight": "in flight"}
STATES = AnyCase(
    "Stable",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "Dead",
)


@click.group("group")
def command() -> None:
    """List and describe consumer groups and share groups; reset or delete their offsets.

    \b
    Example:
      ottla group describe billing
      ottla group reset-offsets billing --topic orders --to-earliest
    """


command.add_command(reset_offsets)


@command.command("list")
@click.option(
    "--state",
    "states",
    type=STATES,
    multiple=True,
    help="Only groups in this state. May be repeated.",
)
@bootstrap_option
@json_option
def list_groups(states: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """List the groups.

    \b
    Example:
      ottla group list --state Stable --state Empty
    """
    from ottla.client.group_admin import GroupAdmin

    with connect(bootstrap) as client:
        groups = GroupAdmin(client).list_groups(states=states)
    if as_json:
        print_json(
            [
                {
                    "group": item.group_id,
                    "state": item.state,
                    "type": item.type,
                    "protocol": item.protocol_type,
                }
                for item in groups
            ]
        )
    elif not groups:
        click.echo("no groups" + (f" that are {' or '.join(states)}" if states else ""))
    else:
        rows = [
            (item.group_id, item.state, item.type, item.protocol_type or None) for item in groups
        ]
        print_table(("group", "state", "type", "protocol"), rows)


@command.command("describe")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@bootstrap_option
@json_option
def describe(groups: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Show the state, members and lag of groups.

    The lag of a partition is its log end offset minus the committed offset. Of a share group it is
    what is not done with after the start offset; records in flight are those that were delivered
    at least once and are not all done with.

    \b
    Example:
      ottla group describe billing
    """
    from ottla.client.group_admin import GroupAdmin

    described = []
    with connect(bootstrap) as client:
        admin = GroupAdmin(client)
        for group in groups:
            info = admin.describe_group(group)
            if info.type == SHARE:
                described.append(described_share_group(client, info))
            else:
                described.append(_described(client, info, admin.committed_offsets(group)))
    if as_json:
        print_json(list(described))
        return
    for number, document in enumerate(described):
        if number:
            click.echo()
        _show(document)


@command.command("delete")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@click.option("--if-exists", is_flag=True, help="Do not fail if a group does not exist.")
@bootstrap_option
@json_option
def delete(groups: tuple[str, ...], if_exists: bool, bootstrap: str, as_json: bool) -> None:
    """Delete groups without members, and their committed offsets.

    \b
    Example:
      ottla group delete billing
    """
    from ottla.client.group_admin import GroupAdmin, UnknownGroup

    results: list[Json] = []
    try:
        with connect(bootstrap) as client:
            for group in groups:
                deleted = True
                try:
                    GroupAdmin(client).delete_group(group)
                except UnknownGroup:
                    if not if_exists:
                        raise
                    deleted = False
                results.append({"group": group, "deleted": deleted})
                if not as_json:
                    what = f"deleted group {group}" if deleted else f"there is no group {group}"
                    click.echo(what)
    finally:
        if as_json and results:  # also those before a failure
            print_json(results)


@command.command("delete-offsets")
@click.argument("group")
@topics_option
@bootstrap_option
@json_option
def delete_offsets(
    group: str, topics: tuple[TopicChoice, ...], bootstrap: str, as_json: bool
) -> None:
    """Delete committed offsets of GROUP, for topics that no member is subscribed to.

    The start offsets of a share group are deleted by topic, while it has no members.

    \b
    Example:
      ottla group delete-offsets billing --topic orders --topic returns:0,1
    """
    from ottla.client.admin import Admin
    from ottla.client.group_admin import GroupAdmin

    if not topics:
        raise click.UsageError("give --topic, once or more.")
    with connect(bootstrap) as client:
        partitions = chosen_partitions(Admin(client), topics)
        if is_share_group(client, group):
            outcomes = delete_start_offsets(client, group, topics)
        else:
            outcomes = GroupAdmin(client).delete_offsets(group, partitions)
    failures = [problem for problem in outcomes.values() if problem is not None]
    if as_json:
        print_json(
            [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "deleted": problem is None,
                    "error": None if problem is None else problem.code.name,
                }
                for partition, problem in sorted(outcomes.items())
            ]
        )
    else:
        rows = [
            (*partition, "deleted" if problem is None else problem.code.name)
            for partition, problem in sorted(outcomes.items())
        ]
        print_table(("topic", "partition", "outcome"), rows)
    if failures:
        raise click.ClickException(
            f"the offsets of {len(failures)} of {len(outcomes)} partitions were not deleted: "
            f"{failures[0]}"
        )


def _described(
    client: "Client",
    info: "GroupInfo",
    committed: "dict[TopicPartition, CommittedOffset]",
) -> dict[str, Json]:
    from ottla.client.admin import LATEST, Admin

    readers = {
        partition: member.member_id for member in info.members for partition in member.assignment
    }
    partitions = sorted({*committed, *readers})
    ends = Admin(client).list_offsets(dict.fromkeys(client.led(partitions), LATEST))
    rows: list[Json] = []
    total = 0
    for partition in partitions:
        own = committed.get(partition)
        end = ends[partition].offset if partition in ends else None
        lag = None if own is None or end is None else end - own.offset
        total += lag or 0
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": None if own is None else own.offset,
                "metadata": None if own is None else own.metadata,
                "end": end,
                "lag": lag,
                "member_id": readers.get(partition),
            }
        )
    return {**facts_of(info), "partitions": rows, "total_lag": total}


def _show(group: dict[str, Json]) -> None:
    facts = [f"{group['type']} group", f"coordinator {group['coordinator']}"]
    facts += [
        f"{name} {group[name]}"
        for name in ("protocol", "assignor", "epoch")
        if group[name] not in ("", None)
    ]
    click.echo(f"{group['group']} is {group['state']}  ({', '.join(facts)})")
    members, partitions = _objects(group["members"]), _objects(group["partitions"])
    if members:
        click.echo()
        print_table(
            ("member", "instance", "client", "host", "reads"),
            [
                (
                    item["member_id"],
                    item["instance_id"],
                    item["client_id"],
                    item["host"],
                    _reads(item),
                )
                for item in members
            ],
        )
    if partitions:
        click.echo()
        names = ("topic", "partition", "committed", "end", "lag", "member_id")
        if group["type"] == SHARE:
            names = ("topic", "partition", "start", "end", "lag", "in_flight")
        rows = [tuple(item[name] for name in names) for item in partitions]
        print_table([TITLES.get(name, name) for name in names], rows)
    without = sum(item["lag"] is None for item in partitions)
    note = f" (not known for {without} of {len(partitions)} partitions)" if without else ""
    click.echo(f"\ntotal lag: {group['total_lag']}{note}")


def _reads(member: dict[str, Json]) -> str:
    """What a member has to read: `orders 0,1; returns 0`."""
    topics: dict[str, list[str]] = {}
    for item in _objects(member["assignment"]):
        topics.setdefault(str(item["topic"]), []).append(str(item["partition"]))
    text = "; ".join(f"{topic} {','.join(numbers)}" for topic, numbers in topics.items())
    settled = member["assignment"] == member["target"]
    return (text or "nothing") + ("" if settled else " (changing)")


def _objects(items: Json) -> list[dict[str, Json]]:
    assert isinstance(items, list)
    return [item for item in items if isinstance(item, dict)]
