"""The `--topic NAME[:PARTITIONS]` option of the commands that change what a group has committed."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.cluster import TopicPartition

F = TypeVar("F", bound=Callable[..., object])


class TopicChoice(NamedTuple):
    """A topic and some of its partitions; none named means all."""

    topic: str
    partitions: tuple[int, ...]


def parse_topics(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[TopicChoice, ...]:
    """Read what --topic says, each time it is given."""
    return tuple(map(_parse_topic, texts))


def _parse_topic(text: str) -> TopicChoice:
    topic, colon, numbers = text.partition(":")
    parts = numbers.split(",") if colon else []
    if not topic or not all(part.isascii() and part.isdigit() for part in parts):
        raise click.BadParameter(f"{text!r} is not a topic, nor a topic with partitions (a:0,2).")
    return TopicChoice(topic, tuple(sorted({int(part) for part in parts})))


topics_option: Callable[[F], F] = click.option(
    "--topic",
    "topics",
    multiple=True,
    callback=parse_topics,
    metavar="NAME[:P,...]",
    help="A topic, or some of its partitions. May be repeated.",
)


def chosen_partitions(admin: "Admin", topics: Sequence[TopicChoice]) -> "list[TopicPartition]":
    """The partitions that were meant; each must exist."""
    from ottla.client.cluster import TopicPartition

    chosen = set()
    for topic, numbers in topics:
        existing = admin.partitions(topic)
        wanted = [TopicPartition(topic, number) for number in numbers] or existing
        for partition in wanted:
            if partition not in existing:
                raise click.ClickException(
                    f"topic {topic} has no partition {partition.partition}: "
                    f"it has 0 to {len(existing) - 1}"
                )
        chosen.update(wanted)
    return sorted(chosen)
