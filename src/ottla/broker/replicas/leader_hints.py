"""Who leads instead, for a client that came to the wrong broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from ottla.metadata.elections import NO_LEADER
from ottla.wire.produce import NodeEndpoint, TopicKey

if TYPE_CHECKING:
    from ottla.broker.node import Node


def leader_hint(node: Node, topic: TopicKey, index: int) -> tuple[int, int] | None:
    """Id and epoch of a partition's leader, where that is another broker."""
    if isinstance(topic, bytes):
        known = node.image.topics_by_id.get(UUID(bytes=topic))
    else:
        known = node.image.topics.get(topic)
    if known is None or not 0 <= index < len(known.assignment):
        return None
    leader = node.leader_of(known.name, index)
    return None if leader.id in (NO_LEADER, node.id) else (leader.id, leader.epoch)


def leader_endpoints(node: Node, listener: str, leaders: Iterable[int]) -> list[NodeEndpoint]:
    """The addresses of brokers, as far as they live and have this listener."""
    found: list[NodeEndpoint] = []
    for leader in leaders:
        broker = node.image.brokers.get(leader)
        where = None if broker is None else broker.endpoint(listener)
        if broker is not None and where is not None:
            found.append(NodeEndpoint(broker.id, where.host, where.port, broker.rack))
    return found
