"""ShareAcknowledge, versions 1 and 2: what a member of a share group says of its records.

KIPs: 932 (share groups), 1222 (renewal of locks).
"""

from __future__ import annotations

from uuid import UUID

from ottla.api.authorization import Inside
from ottla.api.registry import Request, api
from ottla.api.share_requests import Codes, acknowledged, hints_of, session_key
from ottla.later import Later
from ottla.security.operations import Operation, ResourceType
from ottla.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


@api(
    ApiKey.SHARE_ACKNOWLEDGE,
    1,
    2,
    ShareAcknowledgeRequest,
    authorize=Inside((Operation.READ, ResourceType.GROUP), (Operation.READ, ResourceType.TOPIC)),
)
def share_acknowledge(
    request: Request, asked: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse | Later[ShareAcknowledgeResponse]:
    """Take acknowledgements; the reply leaves when they are stored."""
    epoch = asked.share_session_epoch
    try:
        key = session_key(request, asked.group_id, asked.member_id)
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = request.node.sharing.sessions.find(key)
        if epoch != FINAL_EPOCH:
            session.move_on(epoch)
    except KafkaError as problem:
        return ShareAcknowledgeResponse(error_code=problem.code)
    codes = acknowledged(request, key, asked.topics, asked.is_renew_ack)
    return codes.map(lambda found: _reply(request, key, epoch, found))


def _reply(request: Request, key: SessionKey, epoch: int, codes: Codes) -> ShareAcknowledgeResponse:
    hints = hints_of(request, codes.items())
    topics: dict[UUID, ShareAcknowledgeTopicResponse] = {}
    for where, code in codes.items():
        topic = topics.setdefault(
            where.topic_id, ShareAcknowledgeTopicResponse(topic_id=where.topic_id)
        )
        leader, leader_epoch = hints.leaders.get(where, (0, 0))
        topic.partitions.append(
            PartitionData(
                partition_index=where.partition,
                error_code=code,
                current_leader=LeaderIdAndEpoch(leader_id=leader, leader_epoch=leader_epoch),
            )
        )
    sharing = request.node.sharing
    if epoch == FINAL_EPOCH:
        sharing.close_session(key)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=sharing.settings.of(key.group).partition.lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=[
            NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
            for node, host, port, rack in hints.endpoints
        ],
    )
