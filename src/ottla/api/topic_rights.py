"""Whether a client may use a topic that a request names by name or by id."""

from uuid import UUID

from ottla.api.registry import Request
from ottla.security.operations import Operation, ResourceType
from ottla.wire.message import NO_UUID


def may_use_topic(
    request: Request, operation: Operation, name: str, topic_id: UUID = NO_UUID
) -> bool:
    """False where the client may not; an id that nobody knows is for the handler to refuse."""
    if topic_id != NO_UUID:
        topic = request.node.image.topics_by_id.get(topic_id)
        if topic is None:
            return True
        name = topic.name
    return request.access.may(operation, ResourceType.TOPIC, name)
