"""The first page: is the cluster well?"""

from typing import NamedTuple

from starlette.responses import Response

from ottla.client import Admin
from ottla.client.admin import PartitionInfo, TopicDescription
from ottla.client.group_admin import GroupAdmin
from ottla.console.calls import ConsoleCall

SHOWN = 20


class Trouble(NamedTuple):
    """A partition that is not as it should be."""

    topic: str
    partition: PartitionInfo
    what: str


def troubles(topics: list[TopicDescription]) -> tuple[list[Trouble], int, int]:
    """The worst partitions, and how many are offline and under-replicated."""
    offline, under = [], []
    for topic in topics:
        for each in topic.partitions:
            if each.leader < 0:
                offline.append(Trouble(topic.name, each, "offline"))
            elif len(each.isr) < len(each.replicas):
                under.append(Trouble(topic.name, each, "under-replicated"))
    return [*offline, *under][:SHOWN], len(offline), len(under)


def show(call: ConsoleCall) -> Response:
    """The page."""
    with call.cluster.client() as client:
        cluster = Admin(client).describe_cluster()
        groups = GroupAdmin(client).list_groups()
    topics = call.cluster.topics()
    found, offline, under = troubles(topics)
    states: dict[str, int] = {}
    for group in groups:
        states[group.state or "unknown"] = states.get(group.state or "unknown", 0) + 1
    return call.render(
        "overview.html",
        cluster=cluster,
        topics=sum(not topic.internal for topic in topics),
        internal=sum(topic.internal for topic in topics),
        partitions=sum(len(topic.partitions) for topic in topics),
        groups=len(groups),
        states=sorted(states.items()),
        troubles=found,
        offline=offline,
        under=under,
    )
