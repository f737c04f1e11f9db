"""`ottla cluster move`: give the partitions of a topic to some of the brokers.

Rules kept here:
1. The new replicas are spread as those of a new topic would be: leaders in turn, racks in turn. Of
   the ways to do that, the one is taken that copies the least.
2. A partition that has its replicas already is left alone.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.options import bootstrap_option, connect, json_option
from ottla.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from ottla.client.admin import PartitionInfo

Plan = dict[int, list[int]]
"""By partition its replicas, the preferred leader first."""


class Numbers(click.ParamType[list[int]]):
    """Broker ids, separated by commas."""

    name = "ID,ID,..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[int]:
        """The ids in their order."""
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isascii() and part.isdigit() for part in parts):
            self.fail(f"{value}: must be broker ids, such as 1,2,3.", param, ctx)
        ids = [int(part) for part in parts]
        if len(set(ids)) < len(ids):
            self.fail(f"{value}: duplicate broker id.", param, ctx)
        return ids


@click.command("move")
@click.argument("name", metavar="NAME")
@click.option(
    "--brokers", type=Numbers(), required=True, help="Ids of the brokers to assign the replicas to."
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1),
    help="New replication factor; by default unchanged.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan without executing it.")
@bootstrap_option
@json_option
def command(
    name: str,
    brokers: list[int],
    replication_factor: int | None,
    dry_run: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Reassign the partitions of the topic NAME to the given brokers.

    New replicas are added before old ones are removed; `ottla cluster describe` shows the
    reassignments in progress.

    \b
    Example:
      ottla cluster move orders --brokers 1,2,4 --dry-run
    """
    from ottla.client.admin import Admin
    from ottla.client.cluster import TopicPartition
    from ottla.client.moving import Replicas

    with connect(bootstrap) as client:
        admin = Admin(client)
        racks = {broker.id: broker.rack for broker in admin.describe_cluster().brokers}
        unknown = [broker for broker in brokers if broker not in racks]
        if unknown:
            raise click.UsageError(
                f"--brokers: there is no broker {unknown[0]}; there are "
                f"{', '.join(map(str, sorted(racks)))}."
            )
        (topic,) = admin.describe_topics([name])
        chosen = {broker: racks[broker] for broker in brokers}
        factor = replication_factor or len(topic.partitions[0].replicas)
        if factor > len(brokers):
            raise click.UsageError(
                f"{factor} replicas need as many brokers, but --brokers has {len(brokers)}: name "
                "more, or give a lower --replication-factor."
            )
        plan = cheapest_plan(topic.partitions, chosen, factor)
        if plan and not dry_run:
            Replicas(client).move({TopicPartition(name, at): to for at, to in plan.items()})
    before = {each.partition: each.replicas for each in topic.partitions}
    if as_json:
        print_json([_fields(name, at, before[at], to) for at, to in plan.items()])
        return
    if not plan:
        click.echo(f"{name} already has this assignment")
        return
    click.echo(f"{len(plan)} partition(s) {'would move' if dry_run else 'are moving'}")
    print_table(
        ("partition", "replicas", "to"),
        [(f"{name}-{at}", _text(before[at]), _text(to)) for at, to in plan.items()],
    )


def cheapest_plan(
    partitions: Sequence["PartitionInfo"], brokers: Mapping[int, str | None], factor: int
) -> Plan:
    """The partitions that get other replicas; raises KafkaError where there are too few brokers."""
    from ottla.metadata.placement import spread

    def cost(plan: Sequence[Sequence[int]]) -> tuple[int, int]:
        pairs = list(zip(partitions, plan, strict=True))
        copied = sum(len(set(to) - set(each.replicas)) for each, to in pairs)
        return copied, sum(each.replicas[0] != to[0] for each, to in pairs)

    plans = [spread(brokers, len(partitions), factor, start) for start in range(len(brokers))]
    cheapest = min(plans, key=cost)
    return {
        each.partition: to
        for each, to in zip(partitions, cheapest, strict=True)
        if each.replicas != to
    }


def _text(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _fields(topic: str, partition: int, before: list[int], after: list[int]) -> Json:
    return {
        "topic": topic,
        "partition": partition,
        "replicas": list(before),
        "to": list(after),
    }
