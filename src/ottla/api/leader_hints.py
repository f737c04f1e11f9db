"""Where hinted leaders are found (KIP-951), for clients of the listener that asked."""

from collections.abc import Iterable

from ottla.api.registry import Request
from ottla.wire.produce import NodeEndpoint


def leader_endpoints(request: Request, leaders: Iterable[int]) -> list[NodeEndpoint]:
    """The addresses of brokers, as far as they live and have this listener."""
    found: list[NodeEndpoint] = []
    for leader in leaders:
        broker = request.node.image.brokers.get(leader)
        where = None if broker is None else broker.endpoint(request.listener)
        if broker is not None and where is not None:
            found.append(NodeEndpoint(broker.id, where.host, where.port, broker.rack))
    return found
