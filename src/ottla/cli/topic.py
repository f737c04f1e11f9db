"""`ottla topic`: create, list, describe, alter, trim and delete topics."""

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING
from uuid import UUID

import click

from ottla.cli.options import (
    bootstrap_option,
    check_settings,
    connect,
    json_option,
    pairs,
)
from ottla.cli.output import Json, print_json, print_table
from ottla.cli.topic_trim import trim

if TYPE_CHECKING:
    from ottla.client.admin import Admin, TopicDescription

MOST_REPLICAS = 32_767
MOST_PARTITIONS = 2**31 - 1


@click.group("topic")
def command() -> None:
    """Create, list, describe, alter, trim and delete topics.

    \b
    Example:
      ottla topic create events --partitions 3 --set retention.ms=86400000
    """


command.add_command(trim)


@command.command("create")
@click.argument("name")
@click.option(
    "--partitions",
    type=click.IntRange(1, MOST_PARTITIONS),
    help="Number of partitions.  [default: the broker's num.partitions]",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, MOST_REPLICAS),
    help="Number of replicas of each partition.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help=("A topic setting. May be repeated."),
)
@click.option("--if-not-exists", is_flag=True, help="Do not fail if the topic exists.")
@bootstrap_option
@json_option
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    settings: tuple[str, ...],
    if_not_exists: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Create the topic NAME.

    \b
    Example:
      ottla topic create events --partitions 3 --set cleanup.policy=compact
    """
    from ottla.client.admin import BROKER_DEFAULT, Admin
    from ottla.wire.errors import ErrorCode, KafkaError

    created = True
    with connect(bootstrap) as client:
        try:
            Admin(client).create_topic(
                name,
                partitions=BROKER_DEFAULT if partitions is None else partitions,
                replication_factor=(
                    BROKER_DEFAULT if replication_factor is None else replication_factor
                ),
                settings=pairs(settings, "--set"),
            )
        except KafkaError as problem:
            if not if_not_exists or problem.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            created = False
    if as_json:
        print_json({"name": name, "created": created})
    else:
        click.echo(f"created topic {name}" if created else f"topic {name} already exists")


@command.command("list")
@click.option("--internal", is_flag=True, help="Include internal topics.")
@bootstrap_option
@json_option
def list_topics(internal: bool, bootstrap: str, as_json: bool) -> None:
    """List the topics.

    \b
    Example:
      ottla topic list --json
    """
    from ottla.client.admin import Admin

    with connect(bootstrap) as client:
        topics = [topic for topic in Admin(client).list_topics() if internal or not topic.internal]
    if as_json:
        print_json(
            [
                {
                    "name": topic.name,
                    "id": id_text(topic.id),
                    "internal": topic.internal,
                    "partitions": len(topic.partitions),
                    "replication_factor": _replication_factor(topic),
                }
                for topic in topics
            ]
        )
    elif not topics:
        click.echo("no topics (create one with: ottla topic create NAME)")
    else:
        rows = [(topic.name, len(topic.partitions), _replication_factor(topic)) for topic in topics]
        print_table(("topic", "partitions", "replicas"), rows)


@command.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@bootstrap_option
@json_option
def describe(names: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Show the partitions, offsets and non-default settings of topics.

    \b
    Example:
      ottla topic describe events
    """
    from ottla.client.admin import Admin

    with connect(bootstrap) as client:
        admin = Admin(client)
        described = [_described(admin, topic) for topic in admin.describe_topics(names)]
    if as_json:
        print_json(list(described))
        return
    for number, topic in enumerate(described):
        if number:
            click.echo()
        _show(topic)


@command.command("alter")
@click.argument("name")
@click.option(
    "--partitions",
    type=click.IntRange(1, MOST_PARTITIONS),
    help="New number of partitions; it can only increase.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help=("Set a topic setting. May be repeated."),
)
@click.option(
    "--unset",
    multiple=True,
    metavar="NAME",
    help=("Reset a setting to its default. May be repeated."),
)
@bootstrap_option
@json_option
def alter(
    name: str,
    partitions: int | None,
    settings: tuple[str, ...],
    unset: tuple[str, ...],
    bootstrap: str,
    as_json: bool,
) -> None:
    """Change the settings of the topic NAME, or add partitions.

    \b
    Example:
      ottla topic alter events --partitions 6 --set retention.ms=3600000
    """
    from ottla.client.admin import Admin, Resource
    from ottla.wire.config_resource_type import ConfigResourceType

    changes = pairs(settings, "--set")
    if partitions is None and not changes and not unset:
        raise click.UsageError("nothing to change: give --partitions, --set or --unset.")
    check_settings("topic", unset)
    with connect(bootstrap) as client:
        admin = Admin(client)
        if changes or unset:
            if partitions is not None:  # a number that is refused shall not leave half of it done
                admin.create_partitions(name, partitions, validate_only=True)
            admin.alter_settings(Resource(ConfigResourceType.TOPIC, name), changes, delete=unset)
        if partitions is not None:
            admin.create_partitions(name, partitions)
    if as_json:
        document: dict[str, Json] = {"name": name}
        if partitions is not None:
            document["partitions"] = partitions
        document["set"] = dict(changes)
        document["unset"] = list(unset)
        print_json(document)
    else:
        click.echo(f"altered topic {name}")


@command.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--if-exists", is_flag=True, help="Do not fail if a topic does not exist.")
@bootstrap_option
@json_option
def delete(names: tuple[str, ...], if_exists: bool, bootstrap: str, as_json: bool) -> None:
    """Delete topics with all their records.

    \b
    Example:
      ottla topic delete events clicks
    """
    from ottla.client.admin import Admin
    from ottla.client.cluster import UnknownTopic

    results: list[Json] = []
    try:
        with connect(bootstrap) as client:
            for name in names:
                deleted = True
                try:
                    Admin(client).delete_topic(name)
                except UnknownTopic:
                    if not if_exists:
                        raise
                    deleted = False
                results.append({"name": name, "deleted": deleted})
                if not as_json:
                    what = f"deleted topic {name}" if deleted else f"topic {name} does not exist"
                    click.echo(what)
    finally:
        if as_json and results:  # also those before a failure
            print_json(results)


def id_text(topic_id: UUID) -> str:
    """A topic's id as Kafka's tools write it."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _replication_factor(topic: "TopicDescription") -> int:
    return max((len(partition.replicas) for partition in topic.partitions), default=0)


def _described(admin: "Admin", topic: "TopicDescription") -> dict[str, Json]:
    from ottla.client.admin import EARLIEST, LATEST, Resource
    from ottla.client.cluster import TopicPartition
    from ottla.wire.config_resource_type import ConfigResourceType

    led = [
        TopicPartition(topic.name, item.partition) for item in topic.partitions if item.leader >= 0
    ]
    starts = admin.list_offsets(dict.fromkeys(led, EARLIEST))
    ends = admin.list_offsets(dict.fromkeys(led, LATEST))
    partitions: list[Json] = []
    for item in topic.partitions:
        where = TopicPartition(topic.name, item.partition)
        partitions.append(
            {
                "partition": item.partition,
                "leader": item.leader if item.leader >= 0 else None,
                "leader_epoch": item.leader_epoch,
                "replicas": list(item.replicas),
                "isr": list(item.isr),
                "offline": list(item.offline),
                "start_offset": starts[where].offset if where in starts else None,
                "end_offset": ends[where].offset if where in ends else None,
            }
        )
    settings: dict[str, Json] = {
        setting.name: setting.value
        for setting in admin.describe_settings(Resource(ConfigResourceType.TOPIC, topic.name))
        if setting.source == "DYNAMIC_TOPIC_CONFIG"
    }
    return {
        "name": topic.name,
        "id": id_text(topic.id),
        "internal": topic.internal,
        "settings": settings,
        "partitions": partitions,
    }


def _show(topic: dict[str, Json]) -> None:
    partitions, settings = topic["partitions"], topic["settings"]
    assert isinstance(partitions, list)
    assert isinstance(settings, dict)
    click.echo(f"{topic['name']}  (id {topic['id']})")
    for name, value in settings.items():
        click.echo(f"  {name}={value}")
    rows = []
    for item in partitions:
        assert isinstance(item, dict)
        nodes = [_nodes(item[key]) for key in ("replicas", "isr")]
        rows.append(
            (item["partition"], item["leader"], *nodes, item["start_offset"], item["end_offset"])
        )
    print_table(("partition", "leader", "replicas", "in sync", "start offset", "end offset"), rows)


def _nodes(ids: Json) -> str:
    assert isinstance(ids, list)
    return ",".join(map(str, ids)) or "none"
