"""Where members of a streams group are asked about their state (interactive queries).

Rules kept here:
1. A member that has an endpoint is listed with the partitions of all sources of its tasks, active
   and standby apart. A source with fewer partitions than its subtopology has tasks has the first.
2. It is worked out once for each member and assignment.
"""

from collections.abc import Iterable, Mapping

from ottla.coordinator.streams.configured import ConfiguredTopology
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.member import StreamsMember
from ottla.coordinator.topics import TopicView
from ottla.wire.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)


def endpoint_partitions(
    group: StreamsGroup,
    members: Iterable[StreamsMember],
    configured: ConfiguredTopology,
    topics: TopicView,
) -> list[EndpointToPartitions]:
    """The partitions of all members that have an endpoint."""
    found = []
    for member in members:
        if member.endpoint is None:
            continue
        known = group.endpoints.get(member.member_id)
        if known is None:
            host, port = member.endpoint
            known = group.endpoints[member.member_id] = EndpointToPartitions(
                user_endpoint=Endpoint(host=host, port=port),
                active_partitions=_partitions(member.assigned.active, configured, topics),
                standby_partitions=_partitions(member.assigned.standby, configured, topics),
            )
        found.append(known)
    return found


def _partitions(
    tasks: Mapping[str, Iterable[int]], configured: ConfiguredTopology, topics: TopicView
) -> list[TopicPartition]:
    found = []
    for name, numbers in tasks.items():
        subtopology = configured.subtopologies.get(name)
        for source in sorted(() if subtopology is None else subtopology.sources):
            topic = topics.by_name(source)
            if topic is not None:
                readable = [number for number in sorted(numbers) if number < topic.partitions]
                found.append(TopicPartition(topic=source, partitions=readable))
    return found
