"""JoinGroup, versions 0 to 9: become a member of a classic group (KIP-345, KIP-394, KIP-800)."""

from ottla.api.authorization import OnGroup
from ottla.api.registry import Request, api
from ottla.later import Later
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_THAT_CAN_NAME_NO_PROTOCOL = 7


@api(ApiKey.JOIN_GROUP, 0, 9, JoinGroupRequest, authorize=OnGroup(Operation.READ, "group_id"))
def join_group(
    request: Request, asked: JoinGroupRequest
) -> JoinGroupResponse | Later[JoinGroupResponse]:
    """Join; the answer comes when the rebalance is complete."""
    answer = request.node.groups.ask(
        asked.group_id,
        lambda shard, now: shard.handle_join_group(asked, request.context, now),
        lambda code, _: JoinGroupResponse(error_code=code),
    )
    if isinstance(answer, JoinGroupResponse):
        return _for_version(answer, request.version)
    return answer.map(lambda result: _for_version(result, request.version))


def _for_version(answer: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """As in Kafka, a rejected member gets no protocol."""
    if answer.error_code and version >= FIRST_THAT_CAN_NAME_NO_PROTOCOL:
        answer.protocol_name = None
    return answer
