"""One topic: its partitions, and its settings with where they come from."""

from typing import NamedTuple

from starlette.responses import Response

from ottla.client import Admin, KafkaError, TopicPartition
from ottla.client.admin import EARLIEST, LATEST, OffsetAt, PartitionInfo, Resource
from ottla.console.calls import ConsoleCall
from ottla.console.pages.topics import leader_sizes
from ottla.console.paging import page_of
from ottla.wire.config_resource_type import ConfigResourceType


class TopicPartitionRow(NamedTuple):
    """A partition in the list."""

    info: PartitionInfo
    start: int | None
    end: int | None
    size: int | None

    @property
    def status(self) -> str:
        """In a word."""
        if self.info.leader < 0:
            return "offline"
        return "in sync" if len(self.info.isr) == len(self.info.replicas) else "under-replicated"


def show(call: ConsoleCall) -> Response:
    """Its partitions."""
    name = call.path("topic")
    with call.cluster.client() as client:
        admin = Admin(client)
        (topic,) = admin.describe_topics([name])
        page = page_of(sorted(topic.partitions), call.number("page", 1))
        shown = topic._replace(partitions=list(page.items))
        led = [TopicPartition(name, each.partition) for each in page.items if each.leader >= 0]
        starts: dict[TopicPartition, OffsetAt] = {}
        ends: dict[TopicPartition, OffsetAt] = {}
        note = ""
        try:
            starts = admin.list_offsets(dict.fromkeys(led, EARLIEST))
            ends = admin.list_offsets(dict.fromkeys(led, LATEST))
        except KafkaError as problem:
            note = str(problem)
        sizes = leader_sizes(client, [shown])
    rows = []
    for each in page.items:
        where = TopicPartition(name, each.partition)
        rows.append(
            TopicPartitionRow(
                each,
                starts[where].offset if where in starts else None,
                ends[where].offset if where in ends else None,
                sizes.get(where),
            )
        )
    return call.render("topic.html", topic=topic, page=page, rows=rows, note=note)


def show_settings(call: ConsoleCall) -> Response:
    """Its settings."""
    name = call.path("topic")
    with call.cluster.client() as client:
        admin = Admin(client)
        admin.describe_topics([name])
        settings = admin.describe_settings(Resource(ConfigResourceType.TOPIC, name), docs=True)
    return call.render("topic_settings.html", name=name, rows=settings)
