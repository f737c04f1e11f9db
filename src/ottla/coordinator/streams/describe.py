"""StreamsGroupDescribe: a streams group as administrators see it."""

from collections.abc import Iterable, Mapping

from ottla.coordinator.group_state import GroupState, check_group_id
from ottla.coordinator.streams.configured import ConfiguredTopology, InternalTopic
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.member import StreamsMember
from ottla.coordinator.streams.schemas import TopicInfo as StoredTopic
from ottla.coordinator.streams.tasks import Target, listed
from ottla.coordinator.streams.topology import StreamsTopology
from ottla.wire.errors import KafkaError
from ottla.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)


def described(state: GroupState, group_id: str) -> DescribedGroup:
    """One group, or why not."""
    try:
        check_group_id(group_id)
        group = state.of_kind(group_id, StreamsGroup)
    except KafkaError as problem:
        return DescribedGroup(
            group_id=group_id, error_code=problem.code, error_message=problem.message
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[
            _member(member, group.target_of(member_id))
            for member_id, member in group.members.items()
        ],
    )


def _topology(group: StreamsGroup) -> Topology | None:
    """With the numbers of partitions where they are known, else as the application said it."""
    if group.configured is not None and group.configured.is_ready:
        return _configured(group.configured)
    return None if group.topology is None else _requested(group.topology)


def _configured(topology: ConfiguredTopology) -> Topology:
    return Topology(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=name,
                source_topics=sorted(each.source.source_topics),
                repartition_sink_topics=sorted(each.source.repartition_sink_topics),
                repartition_source_topics=_internal(each.repartition_sources),
                state_changelog_topics=_internal(each.changelogs),
            )
            for name, each in sorted(topology.subtopologies.items())
        ],
    )


def _internal(topics: Iterable[InternalTopic]) -> list[TopicInfo]:
    found = [
        TopicInfo(
            name=each.name,
            partitions=each.partitions,
            replication_factor=each.replication_factor,
            topic_configs=_pairs(each.configs),
        )
        for each in topics
    ]
    return sorted(found, key=lambda topic: topic.name)


def _requested(topology: StreamsTopology) -> Topology:
    return Topology(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=name,
                source_topics=sorted(each.source_topics),
                repartition_sink_topics=sorted(each.repartition_sink_topics),
                repartition_source_topics=_stored(each.repartition_source_topics),
                state_changelog_topics=_stored(each.state_changelog_topics),
            )
            for name, each in sorted(topology.subtopologies.items())
        ],
    )


def _stored(topics: Iterable[StoredTopic]) -> list[TopicInfo]:
    return _internal(
        InternalTopic(
            each.name,
            each.partitions,
            each.replication_factor,
            {config.key: config.value for config in each.topic_configs},
        )
        for each in topics
    )


def _member(member: StreamsMember, target: Target) -> Member:
    endpoint, assigned = member.endpoint, member.assigned
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=_pairs(member.client_tags),
        assignment=_assignment(assigned.active, assigned.standby, assigned.warmup),
        target_assignment=_assignment(target.active, target.standby, target.warmup),
    )


def _assignment(
    active: Mapping[str, Iterable[int]],
    standby: Mapping[str, Iterable[int]],
    warmup: Mapping[str, Iterable[int]],
) -> Assignment:
    return Assignment(
        active_tasks=_ids(active), standby_tasks=_ids(standby), warmup_tasks=_ids(warmup)
    )


def _ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=each) for name, each in listed(tasks)]


def _pairs(values: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in values.items()]
