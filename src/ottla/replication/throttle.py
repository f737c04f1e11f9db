"""Throttled replication: how much is copied to replicas that are not in sync, by Kafka's settings.

Rules kept here:
1. A topic's `*.replication.throttled.replicas` says which replicas are throttled: `*`, or pairs
   partition:broker. A replica in the ISR never is: it would leave it.
2. The rates are of a broker, for all throttled partitions together: one for what its leaders
   send, one for what its followers take. Without a rate nothing is throttled.
3. A rate holds on the average: at most a second's worth is sent at once, beyond what one answer
   has; what was too much is waited for.
"""

from typing import Final

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
LONGEST_WAIT_SECONDS: Final = 1.0
"""The settings may change meanwhile."""


def names_replica(replicas: str, partition: int, broker: int) -> bool:
    """Whether a topic's setting names this replica."""
    if not replicas:
        return False
    parts = [part.strip() for part in replicas.split(",")]
    return parts == ["*"] or f"{partition}:{broker}" in parts


class ReplicationQuota:
    """What may be copied now, of bytes a second."""

    __slots__ = ("_at", "_left")

    def __init__(self) -> None:
        self._left = 0.0
        self._at: float | None = None

    def used(self, amount: int, rate: int, now: float) -> None:
        """Bytes were copied."""
        self._fill(rate, now)
        self._left -= amount

    def wait(self, rate: int, now: float) -> float:
        """For how many seconds nothing more may be copied."""
        self._fill(rate, now)
        if self._left > 0:
            return 0.0
        missing = 1 - self._left
        return LONGEST_WAIT_SECONDS if not rate else min(LONGEST_WAIT_SECONDS, missing / rate)

    def _fill(self, rate: int, now: float) -> None:
        before = now - 1.0 if self._at is None else self._at
        self._left = min(float(rate), self._left + (now - before) * rate)
        self._at = now
