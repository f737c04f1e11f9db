"""Which replica a consumer is sent to (KIP-392). Pure.

1. Only a consumer with a rack (`client.rack`) is redirected; where the leader is in that rack it
   stays.
2. Only members of the ISR that have the offset it asks for, are live and serve the listener it came
   by, are chosen from; the one with the longest log first.
"""

from collections.abc import Mapping

from ottla.metadata.image import BrokerImage
from ottla.replication.replicas import Leadership


def preferred_read_replica(
    leadership: Leadership,
    rack: str,
    offset: int,
    brokers: Mapping[int, BrokerImage],
    listener: str,
) -> int | None:
    """The follower to fetch from; None if that is the leader itself."""
    leader = brokers.get(leadership.me)
    if not rack or (leader is not None and leader.rack == rack):
        return None
    best, best_end = None, -1
    for broker in leadership.isr:
        live, position = brokers.get(broker), leadership.position(broker)
        if live is None or position is None or live.rack != rack or live.endpoint(listener) is None:
            continue
        if position.log_start <= offset <= position.end and position.end > best_end:
            best, best_end = broker, position.end
    return best
