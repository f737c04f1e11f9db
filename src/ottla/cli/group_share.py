"""What `ottla group` does with share groups, where it is not what it does with other groups."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.group_facts import facts_of
from ottla.cli.group_topics import TopicChoice
from ottla.cli.output import Json

if TYPE_CHECKING:
    from ottla.client import Client, KafkaError
    from ottla.client.cluster import TopicPartition
    from ottla.client.group_info import GroupInfo

SHARE = "share"


def is_share_group(client: "Client", group: str) -> bool:
    """True if there is a share group of this name."""
    from ottla.client.group_admin import GroupAdmin, UnknownGroup

    try:
        return GroupAdmin(client).describe_group(group).type == SHARE
    except UnknownGroup:
        return False


def described_share_group(client: "Client", info: "GroupInfo") -> dict[str, Json]:
    """The document of a share group: start offsets, lag and records in flight."""
    from ottla.client.admin import LATEST, Admin
    from ottla.client.share_groups import ShareGroupAdmin

    starts = ShareGroupAdmin(client).start_offsets(info.group_id)
    ends = Admin(client).list_offsets(dict.fromkeys(client.led(starts), LATEST))
    rows: list[Json] = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "start": own.offset,
            "end": ends[partition].offset if partition in ends else None,
            "lag": own.lag,
            "in_flight": own.in_flight,
        }
        for partition, own in starts.items()
    ]
    total = sum(own.lag or 0 for own in starts.values())
    return {**facts_of(info), "partitions": rows, "total_lag": total}


def delete_start_offsets(
    client: "Client", group: str, topics: Sequence[TopicChoice]
) -> "dict[TopicPartition, KafkaError | None]":
    """Delete start offsets by topic; what became of each partition."""
    from ottla.client.admin import Admin
    from ottla.client.share_groups import ShareGroupAdmin

    if some := [choice.topic for choice in topics if choice.partitions]:
        raise click.UsageError(
            f"group {group} is a share group: its offsets are deleted for whole topics "
            f"(--topic {some[0]})."
        )
    names = [choice.topic for choice in topics]
    outcomes = ShareGroupAdmin(client).delete_start_offsets(group, names)
    admin = Admin(client)
    return {
        partition: problem
        for topic, problem in outcomes.items()
        for partition in admin.partitions(topic)
    }
