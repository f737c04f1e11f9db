"""`ottla cluster`: the brokers, who leads, and what is not as it should be."""

from typing import TYPE_CHECKING

import click

from ottla.cli.cluster_move import command as move
from ottla.cli.options import bootstrap_option, connect, json_option
from ottla.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.admin import BrokerInfo, ClusterInfo, PartitionInfo, TopicDescription
    from ottla.client.cluster import TopicPartition
    from ottla.client.moving import Moving

NO_LEADER = -1


@click.group("cluster")
def command() -> None:
    """Describe the brokers of a cluster; move partitions between them.

    \b
    Example:
      ottla cluster describe
    """


command.add_command(move)


@command.command("describe")
@bootstrap_option
@json_option
def describe(bootstrap: str, as_json: bool) -> None:
    """Show brokers, the controller, and reassigning, under-replicated and offline partitions.

    Partitions whose leader is not the preferred replica (the first one) are shown, too.

    \b
    Example:
      ottla cluster describe --json
    """
    from ottla.client.admin import Admin
    from ottla.client.moving import Replicas

    with connect(bootstrap) as client:
        admin = Admin(client)
        cluster = admin.describe_cluster()
        topics = admin.list_topics()
        moving = Replicas(client).moving()
    partitions = [(topic, partition) for topic in topics for partition in topic.partitions]
    if as_json:
        print_json(_document(cluster, partitions, moving))
        return
    click.echo(f"cluster {cluster.cluster_id}, controller {cluster.controller}")
    click.echo()
    rows = [
        (
            broker.id,
            f"{broker.host}:{broker.port}",
            broker.rack,
            *_counts(broker, partitions).values(),
        )
        for broker in cluster.brokers
    ]
    print_table(("broker", "address", "rack", "leads", "replicas", "in sync"), rows)
    if moving:
        click.echo()
        click.echo(_number(len(moving), "moving {}"))
        print_table(
            ("partition", "replicas", "coming", "going"),
            [
                (f"{topic}-{index}", *map(_numbers, each))
                for (topic, index), each in sorted(moving.items())
            ],
        )
    for title, wanting in (
        ("under-replicated {}", _under_replicated(partitions)),
        ("{} without a leader", _offline(partitions)),
        ("{} not led by the preferred replica", _astray(partitions)),
    ):
        click.echo()
        click.echo(_number(len(wanting), title))
        if wanting:
            print_table(
                ("partition", "leader", "replicas", "in sync", "offline"),
                [_row(topic, partition) for topic, partition in wanting],
            )


Partitions = list[tuple["TopicDescription", "PartitionInfo"]]


def _counts(broker: "BrokerInfo", partitions: Partitions) -> dict[str, int]:
    return {
        "leads": sum(each.leader == broker.id for _, each in partitions),
        "replicas": sum(broker.id in each.replicas for _, each in partitions),
        "in_sync": sum(broker.id in each.isr for _, each in partitions),
    }


def _under_replicated(partitions: Partitions) -> Partitions:
    return [each for each in partitions if len(each[1].isr) < len(each[1].replicas)]


def _offline(partitions: Partitions) -> Partitions:
    return [each for each in partitions if each[1].leader == NO_LEADER]


def _astray(partitions: Partitions) -> Partitions:
    return [each for each in partitions if each[1].leader not in (NO_LEADER, each[1].replicas[0])]


def _row(topic: "TopicDescription", partition: "PartitionInfo") -> tuple[object, ...]:
    return (
        f"{topic.name}-{partition.partition}",
        None if partition.leader == NO_LEADER else partition.leader,
        _numbers(partition.replicas),
        _numbers(partition.isr),
        _numbers(partition.offline),
    )


def _number(count: int, title: str) -> str:
    """How many partitions, in the words of a title."""
    return f"{count or 'no'} {title.format('partition' if count == 1 else 'partitions')}"


def _numbers(brokers: list[int]) -> str | None:
    return ",".join(map(str, brokers)) or None


def _document(
    cluster: "ClusterInfo", partitions: Partitions, moving: "Mapping[TopicPartition, Moving]"
) -> Json:
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller,
        "brokers": [
            {
                "id": broker.id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                **_counts(broker, partitions),
            }
            for broker in cluster.brokers
        ],
        "partitions": len(partitions),
        "under_replicated": [_fields(*each) for each in _under_replicated(partitions)],
        "offline": [_fields(*each) for each in _offline(partitions)],
        "not_led_by_preferred": [_fields(*each) for each in _astray(partitions)],
        "moving": [
            {
                "topic": topic,
                "partition": index,
                "replicas": list(each.replicas),
                "adding": list(each.adding),
                "removing": list(each.removing),
            }
            for (topic, index), each in sorted(moving.items())
        ],
    }


def _fields(topic: "TopicDescription", partition: "PartitionInfo") -> dict[str, Json]:
    return {
        "topic": topic.name,
        "partition": partition.partition,
        "leader": partition.leader,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "offline": list(partition.offline),
    }
