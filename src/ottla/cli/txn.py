"""`ottla txn`: list and describe transactions, find those that hang, and end them."""

from collections.abc import Sequence
from time import time
from typing import TYPE_CHECKING

import click

from ottla.cli.options import AnyCase, bootstrap_option, connect, json_option
from ottla.cli.output import Json, print_json, print_table, time_text

if TYPE_CHECKING:
    from ottla.client import Client
    from ottla.client.admin import Admin
    from ottla.client.cluster import TopicPartition
    from ottla.client.txn_admin import OpenTransaction, TransactionInfo, TxnAdmin

STATES = AnyCase(
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Empty",
    "Dead",
)
OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""The states with a transaction that can be old. By its age alone, a coordinator also finds those
that have none."""
LONGEST_TIMEOUT = "transaction.max.timeout.ms"


@click.group("txn")
def command() -> None:
    """List and describe transactions; abort hanging ones.

    \b
    Example:
      ottla txn list --state Ongoing
      ottla txn find-hanging
    """


@command.command("list")
@click.option(
    "--state",
    "states",
    type=STATES,
    multiple=True,
    help="Only transactional ids in this state. May be repeated.",
)
@click.option(
    "--older-than",
    type=click.IntRange(0),
    metavar="SECONDS",
    help="Only transactions open for longer than this many seconds.",
)
@bootstrap_option
@json_option
def list_transactions(
    states: tuple[str, ...], older_than: int | None, bootstrap: str, as_json: bool
) -> None:
    """List the transactional ids that the coordinators know.

    \b
    Example:
      ottla txn list --state Ongoing --older-than 60
    """
    from ottla.client.txn_admin import ANY_DURATION, TxnAdmin

    duration = ANY_DURATION if older_than is None else older_than * 1000
    if older_than is not None and not states:
        states = OPEN
    with connect(bootstrap) as client:
        found = TxnAdmin(client).list_transactions(states=states, older_than_ms=duration)
    if as_json:
        print_json(
            [
                {
                    "transactional_id": item.transactional_id,
                    "state": item.state,
                    "producer_id": item.producer_id,
                    "coordinator": item.coordinator,
                }
                for item in found
            ]
        )
    elif not found:
        click.echo("no matching transactions" if states else "no transactions")
    else:
        rows = [
            (item.transactional_id, item.state, item.producer_id, item.coordinator)
            for item in found
        ]
        print_table(("transactional id", "state", "producer id", "coordinator"), rows)


@command.command("describe")
@click.argument("transactional_id", metavar="ID")
@bootstrap_option
@json_option
def describe(transactional_id: str, bootstrap: str, as_json: bool) -> None:
    """Describe the transactional id ID: its state, and the partitions of its transaction.

    \b
    Example:
      ottla txn describe billing-1
    """
    from ottla.client.txn_admin import TxnAdmin

    with connect(bootstrap) as client:
        admin = TxnAdmin(client)
        info = admin.describe_transaction(transactional_id)
        starts = {
            item.partition: item.producer.txn_start_offset
            for item in admin.open_transactions(client.led(info.partitions))
            if item.producer.producer_id == info.producer_id
        }
    document: dict[str, Json] = {
        "transactional_id": info.transactional_id,
        "state": info.state,
        "producer_id": info.producer_id,
        "producer_epoch": info.producer_epoch,
        "coordinator": info.coordinator,
        "timeout_ms": info.timeout,
        "started_ms": info.started,
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "start_offset": starts.get(partition),
            }
            for partition in info.partitions
        ],
    }
    if as_json:
        print_json(document)
    else:
        _show(info, [(*partition, starts.get(partition)) for partition in info.partitions])


@command.command("find-hanging")
@click.option("--topic", metavar="NAME", help="Search this topic only; by default all topics.")
@click.option(
    "--older-than",
    type=click.IntRange(0),
    metavar="SECONDS",
    help=f"Only those not written to for this long.  [default: the brokers' {LONGEST_TIMEOUT}]",
)
@bootstrap_option
@json_option
def find_hanging(topic: str | None, older_than: int | None, bootstrap: str, as_json: bool) -> None:
    """Find hanging transactions: open, but unknown to their coordinator.

    read_committed consumers cannot read past a hanging transaction. Found are transactions that
    are open for longer than the longest timeout, in partitions that their coordinator does not
    list.

    \b
    Example:
      ottla txn find-hanging --topic orders
    """
    from ottla.client.admin import Admin
    from ottla.client.txn_admin import TxnAdmin

    with connect(bootstrap) as client:
        admin = Admin(client)
        limit = _longest_timeout(admin) if older_than is None else older_than * 1000
        found = TxnAdmin(client).find_hanging(
            _partitions(client, admin, topic), older_than_ms=limit, now_ms=int(time() * 1000)
        )
    if as_json:
        print_json([_open_transaction(item) for item in found])
    elif not found:
        click.echo(f"no hanging transactions (open for more than {limit // 1000} seconds)")
    else:
        columns = ("topic", "partition", "start offset", "producer id", "epoch", "last written")
        rows = [
            (
                *item.partition,
                item.producer.txn_start_offset,
                item.producer.producer_id,
                item.producer.epoch,
                time_text(item.producer.last_timestamp),
            )
            for item in found
        ]
        print_table(columns, rows)
        first = found[0]
        click.echo(
            f"\nend one with: ottla txn abort --topic {first.partition.topic} "
            f"--partition {first.partition.partition} "
            f"--start-offset {first.producer.txn_start_offset}"
        )


@command.command("abort")
@click.option("--topic", required=True, metavar="NAME", help="Topic of the transaction.")
@click.option(
    "--partition",
    required=True,
    type=click.IntRange(0),
    metavar="P",
    help="Partition of the transaction.",
)
@click.option(
    "--start-offset", type=click.IntRange(0), metavar="N", help=("Start offset of the transaction.")
)
@click.option(
    "--producer-id", type=click.IntRange(0), metavar="N", help=("Producer id of the transaction.")
)
@click.option(
    "--producer-epoch",
    type=click.IntRange(0),
    metavar="N",
    help=("Producer epoch of the transaction."),
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@bootstrap_option
@json_option
def abort(
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    yes: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Abort an open transaction in one partition, bypassing its coordinator.

    Meant for hanging transactions (see: ottla txn find-hanging). Identify it by its start offset,
    or by its producer id and epoch.

    \b
    Example:
      ottla txn abort --topic orders --partition 0 --start-offset 4711
    """
    from ottla.client.cluster import TopicPartition
    from ottla.client.txn_admin import TxnAdmin

    by_producer = (producer_id is not None, producer_epoch is not None)
    if any(by_producer) != all(by_producer) or all(by_producer) == (start_offset is not None):
        raise click.UsageError("give --start-offset, or --producer-id with --producer-epoch.")
    with connect(bootstrap) as client:
        admin = TxnAdmin(client)
        found = admin.open_transactions([TopicPartition(topic, partition)])
        chosen = [
            item
            for item in found
            if item.producer.txn_start_offset == start_offset
            or (item.producer.producer_id, item.producer.epoch) == (producer_id, producer_epoch)
        ]
        if not chosen:
            raise click.ClickException(_not_found(topic, partition, found))
        transaction = chosen[0]
        if not yes:
            _ask(admin, transaction)
        admin.abort(transaction)
    if as_json:
        print_json(_open_transaction(transaction))
    else:
        click.echo(
            f"aborted the transaction of producer {transaction.producer.producer_id} "
            f"in partition {partition} of topic {topic}"
        )


def _ask(admin: "TxnAdmin", transaction: "OpenTransaction") -> None:
    """Say what will happen, and continue only if that is wanted."""
    where, producer = transaction
    click.echo(
        f"Partition {where.partition} of topic {where.topic} has an open transaction of producer "
        f"{producer.producer_id} (epoch {producer.epoch}) from offset {producer.txn_start_offset} "
        f"on, last written to at {time_text(producer.last_timestamp)}. Once aborted, its "
        "records are never visible to read_committed consumers.",
        err=True,
    )
    owner = admin.coordinated([transaction]).get(transaction)
    if owner is not None:
        click.echo(
            f"It does not hang: it belongs to transactional id {owner.transactional_id}, which is "
            f"{owner.state}, and its coordinator will end it. Aborting it in this partition "
            "alone leaves the transaction half committed if the coordinator commits it.",
            err=True,
        )
    if not click.confirm("Abort it?", err=True):
        raise click.ClickException("nothing was changed")


def _not_found(topic: str, partition: int, found: "Sequence[OpenTransaction]") -> str:
    starts = ", ".join(str(item.producer.txn_start_offset) for item in found)
    return f"partition {partition} of topic {topic} has no such open transaction: " + (
        f"those that it has begin at {starts}" if found else "it has none"
    )


def _longest_timeout(admin: "Admin") -> int:
    """The longest timeout, in milliseconds, that any broker allows a transaction."""
    from ottla.client.admin import Resource
    from ottla.wire.config_resource_type import ConfigResourceType

    timeouts = [
        int(setting.value or 0)
        for broker in admin.describe_cluster().brokers
        for setting in admin.describe_settings(
            Resource(ConfigResourceType.BROKER, str(broker.id)), [LONGEST_TIMEOUT]
        )
    ]
    return max(timeouts, default=0)


def _partitions(client: "Client", admin: "Admin", topic: str | None) -> "list[TopicPartition]":
    from ottla.client.cluster import TopicPartition

    if topic is not None:
        return client.led(admin.partitions(topic))
    return [
        TopicPartition(info.name, item.partition)
        for info in admin.list_topics()
        for item in info.partitions
        if item.leader >= 0
    ]


def _open_transaction(item: "OpenTransaction") -> dict[str, Json]:
    return {
        "topic": item.partition.topic,
        "partition": item.partition.partition,
        "start_offset": item.producer.txn_start_offset,
        "producer_id": item.producer.producer_id,
        "producer_epoch": item.producer.epoch,
        "coordinator_epoch": item.producer.coordinator_epoch,
        "last_written_ms": item.producer.last_timestamp,
    }


def _show(info: "TransactionInfo", rows: Sequence[tuple[str, int, int | None]]) -> None:
    click.echo(
        f"{info.transactional_id} is {info.state}  (producer {info.producer_id} "
        f"epoch {info.producer_epoch}, coordinator {info.coordinator}, "
        f"timeout {info.timeout / 1000:g} seconds)"
    )
    if info.started is not None:
        age = max(time() - info.started / 1000, 0)
        click.echo(f"open since {time_text(info.started)}, for {age:.0f} seconds")
    if rows:
        click.echo()
        print_table(("topic", "partition", "start offset"), rows)
