"""FindCoordinator, versions 0 to 6: which broker coordinates a group, a transactional id or a
share partition.

KIPs: 98 (transactions), 699 (many keys at once), 932 (share partitions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.scheduling.turns import Turns
from ottla.security.operations import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from ottla.broker.coordinators.coordinators import Coordinators

FIRST_WITH_MANY_KEYS = 4
GROUP = 0
TRANSACTION = 1
SHARE = 2
FIRST_WITH_SHARE = 6
NO_NODE = -1
SUCCESS = "NONE"  # what Kafka writes where versions 1 to 3 have room for an error's message


@api(
    ApiKey.FIND_COORDINATOR,
    0,
    6,
    FindCoordinatorRequest,
    pieces("coordinator_keys", "coordinators"),
    authorize=Inside(
        (Operation.DESCRIBE, ResourceType.GROUP),
        (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
)
async def find_coordinator(
    request: Request, asked: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Name the coordinator of each key; internal topics are made on first use."""
    if request.version >= FIRST_WITH_MANY_KEYS:
        answer = FindCoordinatorResponse()
        turns = Turns()
        for key in asked.coordinator_keys:
            answer.coordinators.append(await _find(request, key, asked.key_type))
            await turns.give_way()
        return answer
    found = await _find(request, asked.key, asked.key_type)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message if found.error_code else SUCCESS,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(request: Request, key: str, kind: int) -> Coordinator:
    node = request.node
    try:
        coordinators = _coordinators(request, kind)
        if kind == SHARE:
            request.access.check(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
            _check_share_key(key)
        else:
            resource = ResourceType.GROUP if kind == GROUP else ResourceType.TRANSACTIONAL_ID
            request.access.check(Operation.DESCRIBE, resource, key)
        await coordinators.ensure_topic()
        leader = node.leaders.of(coordinators.topic, coordinators.partition_of(key))
        broker = node.image.brokers.get(leader.id)
        endpoint = None if broker is None else broker.endpoint(request.listener)
        if endpoint is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        code, message = error_of(problem)
        return Coordinator(
            key=key, node_id=NO_NODE, port=NO_NODE, error_code=code, error_message=message
        )
    return Coordinator(
        key=key, node_id=leader.id, host=endpoint.host, port=endpoint.port, error_message=""
    )


def _coordinators(request: Request, kind: int) -> Coordinators[Any]:
    if kind == GROUP:
        return request.node.groups
    if kind == TRANSACTION and request.version >= 1:
        return request.node.transactions
    if kind == SHARE and request.version >= FIRST_WITH_SHARE:
        return request.node.share_coordinator
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"{kind} is not a valid coordinator key type")


def _check_share_key(key: str) -> None:
    """Refuse what is not group:topicId:partition; a group's id may have colons itself."""
    parts = key.rsplit(":", 2)
    if len(parts) != 3 or not all(parts) or len(parts[1]) != 22 or not parts[2].isdecimal():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} is not a key of a share partition")
