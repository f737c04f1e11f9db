"""What ShareFetch and ShareAcknowledge have in common: who asks, and the acknowledgements.

The checks and their order are those of Kafka's KafkaApis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from ottla.api.registry import Request
from ottla.later import Later
from ottla.security.operations import Operation, ResourceType
from ottla.share.acknowledging import check_form
from ottla.share.sessions import SessionKey, TopicIdPartition
from ottla.share.states import Acknowledgement
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.produce import NodeEndpoint

LONGEST_MEMBER_ID: Final = 36
SENT_TO_THE_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
Codes = dict[TopicIdPartition, ErrorCode]


class _Batch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class _Partition(Protocol):
    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[_Batch]: ...


class _Topic(Protocol):
    topic_id: UUID

    @property
    def partitions(self) -> Sequence[_Partition]: ...


class Hints(NamedTuple):
    """The leaders that clients of the wrong broker are sent to (KIP-951)."""

    leaders: dict[TopicIdPartition, tuple[int, int]]
    endpoints: list[NodeEndpoint]


def session_key(request: Request, group: str | None, member: str | None) -> SessionKey:
    """Whose session it is; raises KafkaError."""
    if group is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the group id is missing")
    request.access.check(Operation.READ, ResourceType.GROUP, group)
    if not member or len(member) > LONGEST_MEMBER_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the member id is invalid")
    return SessionKey(group, member)


def refusal_of(request: Request, where: TopicIdPartition) -> ErrorCode | None:
    """Why a partition is not served to the client; None where it may be."""
    topic = request.node.image.topics_by_id.get(where.topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not request.access.may(Operation.READ, ResourceType.TOPIC, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if not 0 <= where.partition < len(topic.assignment):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return None


def acknowledged(
    request: Request, key: SessionKey, topics: Iterable[_Topic], is_renew: bool
) -> Later[Codes]:
    """Take the acknowledgements of a request; what became of them, by partition."""
    codes: Codes = {}
    given: dict[TopicIdPartition, list[Acknowledgement]] = {}
    allows_renew = request.version >= 2
    for topic in topics:
        for partition in topic.partitions:
            where = TopicIdPartition(topic.topic_id, partition.partition_index)
            batches = [
                Acknowledgement(each.first_offset, each.last_offset, tuple(each.acknowledge_types))
                for each in partition.acknowledgement_batches
            ]
            code = None
            if topic.topic_id in request.node.image.topics_by_id:
                code = check_form(batches, allows_renew=allows_renew, is_renew=is_renew)
            code = code or refusal_of(request, where)
            if code is not None:
                codes[where] = code
            elif not batches:
                codes[where] = ErrorCode.NONE
            else:
                given[where] = batches
    taken = request.node.sharing.acknowledge(key.group, key.member, given)
    return taken.map(lambda outcomes: {**codes, **outcomes})


def hints_of(request: Request, codes: Iterable[tuple[TopicIdPartition, int]]) -> Hints:
    """Where the leaders are of partitions that this broker does not lead."""
    leaders: dict[TopicIdPartition, tuple[int, int]] = {}
    for where, code in codes:
        if code in SENT_TO_THE_LEADER:
            found = request.node.leaders.hint(where.topic_id.bytes, where.partition)
            leaders[where] = (-1, -1) if found is None else found
    named = {leader for leader, _ in leaders.values() if leader >= 0}
    return Hints(leaders, request.node.leaders.endpoints(request.listener, named) if named else [])
