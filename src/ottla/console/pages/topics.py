"""The list of topics: searched and paged here, so that thousands of them stay quick."""

from collections.abc import Sequence
from typing import NamedTuple

from starlette.responses import Response

from ottla.client import Client, KafkaError, TopicPartition
from ottla.client.admin import TopicDescription
from ottla.client.log_dirs import describe_log_dirs
from ottla.console.calls import ConsoleCall
from ottla.console.paging import page_of

MOST_SIZED = 2000
"""The most partitions whose sizes one page of the list requests."""


class TopicRow(NamedTuple):
    """A topic in the list."""

    name: str
    internal: bool
    partitions: int
    replicas: int
    offline: int
    under_replicated: int
    size: int | None
    rate: float | None


def leader_sizes(client: Client, topics: Sequence[TopicDescription]) -> dict[TopicPartition, int]:
    """The bytes of each partition at its leader; without those that cannot be told."""
    by_leader: dict[int, list[TopicPartition]] = {}
    for topic in topics:
        for each in topic.partitions:
            if each.leader >= 0:
                where = TopicPartition(topic.name, each.partition)
                by_leader.setdefault(each.leader, []).append(where)
    found: dict[TopicPartition, int] = {}
    for leader, partitions in by_leader.items():
        try:
            for directory in describe_log_dirs(client, leader, partitions):
                found |= directory.replicas
        except KafkaError:
            continue  # a broker that is not there, or does not allow it: shown as unknown
    return found


def show(call: ConsoleCall) -> Response:
    """The page."""
    search, internal = call.text("q"), call.text("internal") == "1"
    wanted = [
        topic
        for topic in call.cluster.topics()
        if (internal or not topic.internal) and search.lower() in topic.name.lower()
    ]
    page = page_of(wanted, call.number("page", 1))
    sizes: dict[TopicPartition, int] = {}
    if sum(len(topic.partitions) for topic in page.items) <= MOST_SIZED:
        with call.cluster.client() as client:
            sizes = leader_sizes(client, page.items)
    rates = {} if call.console.history is None else call.console.history.rates()
    rows = [_row(topic, sizes, rates.get(topic.name)) for topic in page.items]
    return call.render("topics.html", page=page, rows=rows, search=search, internal=internal)


def _row(topic: TopicDescription, sizes: dict[TopicPartition, int], rate: float | None) -> TopicRow:
    known = [
        sizes[where]
        for each in topic.partitions
        if (where := TopicPartition(topic.name, each.partition)) in sizes
    ]
    return TopicRow(
        topic.name,
        topic.internal,
        len(topic.partitions),
        max((len(each.replicas) for each in topic.partitions), default=0),
        sum(each.leader < 0 for each in topic.partitions),
        sum(each.leader >= 0 and len(each.isr) < len(each.replicas) for each in topic.partitions),
        sum(known) if known else None,
        rate,
    )
