"""Whether groups of a kind are served: `group.coordinator.rebalance.protocols`."""

from ottla.api.registry import Request
from ottla.coordinator.group import GroupType


def serves(request: Request, kind: GroupType) -> bool:
    """Whether members may use the protocol of a kind of group."""
    return kind.value in request.node.config.group_coordinator_rebalance_protocols
