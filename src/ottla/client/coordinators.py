"""Which broker coordinates a group or a transactional id.

Rules kept here:
1. Brokers that take many keys at once (FindCoordinator 4, KIP-699) are asked once, others once
   for each key.
2. Nothing is remembered: an administrator asks seldom, and coordinators move.
"""

from collections.abc import Sequence
from enum import IntEnum

from ottla.client.cluster import Client
from ottla.client.errors import check
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

FIRST_WITH_MANY_KEYS = 4


class CoordinatorType(IntEnum):
    """What a key names."""

    GROUP = 0
    TRANSACTION = 1


_NAMES = {CoordinatorType.GROUP: "group", CoordinatorType.TRANSACTION: "transactional id"}


def find_coordinator(client: Client, kind: CoordinatorType, key: str) -> int:
    """The broker that coordinates a group or transactional id; one attempt."""
    return find_coordinators(client, kind, [key])[key]


def find_coordinators(client: Client, kind: CoordinatorType, keys: Sequence[str]) -> dict[str, int]:
    """The coordinating broker of each key; one attempt, to be retried by the caller."""
    version = client.connection().version_of(FindCoordinatorRequest)
    if version < FIRST_WITH_MANY_KEYS:
        return {key: _find_one(client, kind, key) for key in keys}
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
    found = {}
    for item in client.call(request, FindCoordinatorResponse).coordinators:
        check(item.error_code, item.error_message, f"{_NAMES[kind]} {item.key}")
        found[item.key] = item.node_id
    return found


def _find_one(client: Client, kind: CoordinatorType, key: str) -> int:
    request = FindCoordinatorRequest(key_type=kind, key=key)
    reply = client.call(request, FindCoordinatorResponse, newest=FIRST_WITH_MANY_KEYS - 1)
    check(reply.error_code, reply.error_message, f"{_NAMES[kind]} {key}")
    return reply.node_id
