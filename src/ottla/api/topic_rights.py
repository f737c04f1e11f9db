"""Whether a client may use a topic that a request names by name or by id; what of a list it may."""

from collections.abc import Callable, Iterable
from typing import TypeVar
from uuid import UUID

from ottla.api.registry import Request
from ottla.security.operations import Operation, ResourceType
from ottla.wire.message import NO_UUID

T = TypeVar("T")


def split_allowed(items: Iterable[T], may: Callable[[T], bool]) -> tuple[list[T], list[T]]:
    """What is allowed, and what is not, each in the order of the request. Each is asked once."""
    allowed: list[T] = []
    refused: list[T] = []
    for item in items:
        (allowed if may(item) else refused).append(item)
    return allowed, refused


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
