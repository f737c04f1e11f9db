"""StreamsGroupHeartbeat, version 0: all that a member of a streams group says (KIP-1071).

Internal topics that the topology needs are created here: by the broker, in the client's name. Who
may not create them learns it by the status that says that they are missing.
"""

from collections.abc import Mapping
from typing import Final

from ottla.api.authorization import Inside
from ottla.api.group_protocols import serves
from ottla.api.registry import Request, api
from ottla.config.topic_names import INTERNAL_TOPICS, topic_name_problem
from ottla.coordinator.group import GroupType
from ottla.coordinator.streams.configured import InternalTopic, StatusCode
from ottla.coordinator.streams.heartbeat import HeartbeatAnswer
from ottla.coordinator.streams.topology import topic_names
from ottla.later import Later
from ottla.metadata.topics import UNSET, NewTopic
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

TOPIC: Final = ResourceType.TOPIC
PROBLEMS_NAMED: Final = 3
HEARTBEATS_REMEMBERED: Final = 2
"""How many heartbeats learn why a topic could not be created."""


@api(
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    0,
    0,
    StreamsGroupHeartbeatRequest,
    authorize=Inside(
        (Operation.READ, ResourceType.GROUP),
        (Operation.DESCRIBE, ResourceType.TOPIC),
        (Operation.CREATE, ResourceType.TOPIC),
        (Operation.CREATE, ResourceType.CLUSTER),
    ),
)
def streams_group_heartbeat(
    request: Request, asked: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse | Later[StreamsGroupHeartbeatResponse]:
    """Join, stay or leave; the answer has the tasks."""
    if not serves(request, GroupType.STREAMS):
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    if not request.access.may(Operation.READ, ResourceType.GROUP, asked.group_id):
        return _refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refusal = _refused_topology(request, asked)
    if refusal is not None:
        return refusal
    answer = request.node.groups.ask(
        asked.group_id,
        lambda shard, now: shard.handle_streams_group_heartbeat(asked, request.context, now),
        lambda code, message: HeartbeatAnswer(_refused(code, message)),
    )
    if isinstance(answer, HeartbeatAnswer):
        return _with_topics(request, answer)
    return answer.map(lambda found: _with_topics(request, found))


def _refused(code: ErrorCode, message: str | None = None) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=code, error_message=message)


def _refused_topology(
    request: Request, asked: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse | None:
    """The refusal of a topology with topics that no application may use."""
    names = [] if asked.topology is None else topic_names(asked.topology)
    prohibited = [name for name in names if name in INTERNAL_TOPICS]
    if prohibited:
        return _refused(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is "
            "prohibited.",
        )
    invalid = [name for name in names if topic_name_problem(name) is not None]
    if invalid:
        return _refused(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Topic names {','.join(invalid)} are not valid topic names.",
        )
    may = request.access.may
    if not all(may(Operation.DESCRIBE, TOPIC, name) for name in names):
        return _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def _with_topics(request: Request, answer: HeartbeatAnswer) -> StreamsGroupHeartbeatResponse:
    """The reply, after the topics that are missing have begun to be created."""
    reply, missing = answer
    if not missing:
        return reply
    refused = _not_allowed(request, missing)
    if refused:
        _add_detail(reply, f"; Unauthorized to CREATE on topics {', '.join(refused)}.")
        return reply
    topics = request.node.streams_topics
    problems = topics.problems(missing)
    topics.create(
        [_new_topic(each) for each in missing.values()],
        HEARTBEATS_REMEMBERED * reply.heartbeat_interval_ms,
    )
    if problems:
        told = [f"{name} ({why})" for name, why in list(problems.items())[:PROBLEMS_NAMED]]
        more = len(problems) - PROBLEMS_NAMED
        details = ", ".join(told) + (f" and {more} more" if more > 0 else "")
        _add_detail(reply, f"; Creation failed: {details}.")
    return reply


def _not_allowed(request: Request, names: Mapping[str, InternalTopic]) -> list[str]:
    access = request.access
    if access.allows(Operation.CREATE, ResourceType.CLUSTER):
        return []
    return [name for name in names if not access.may(Operation.CREATE, TOPIC, name)]


def _new_topic(topic: InternalTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.partitions,
        topic.replication_factor or UNSET,
        configs=dict(topic.configs),
    )


def _add_detail(reply: StreamsGroupHeartbeatResponse, detail: str) -> None:
    for status in reply.status or ():
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail += detail
            return
    added = Status(
        status_code=StatusCode.MISSING_INTERNAL_TOPICS, status_detail=detail.removeprefix("; ")
    )
    reply.status = [*(reply.status or ()), added]
