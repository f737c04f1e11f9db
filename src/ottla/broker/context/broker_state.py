"""This broker's state in the cluster: its id, its broker epoch, its lease.

Rules kept here:
1. Only `metadata.broker_lifecycle` changes the epoch, the lease and `fenced`; `running` is changed
   by the broker's start and stop. All other rooms read.
2. A broker without a registration has no epoch (`NO_EPOCH`): it leads and coordinates nothing.
"""

from ottla.metadata.clock import boottime
from ottla.metadata.image import NO_EPOCH
from ottla.replication.lease import Lease
from ottla.wire.errors import ErrorCode, KafkaError


class BrokerState:
    """Who this broker is, and what it may do now."""

    __slots__ = ("epoch", "fenced", "id", "lease", "running")

    def __init__(self, broker_id: int) -> None:
        self.id = broker_id
        self.epoch = NO_EPOCH
        """The epoch of this broker's registration."""
        self.lease: Lease | None = None
        """How long this broker may answer on its own; None where the store never ends a session
        of a broker that runs."""
        self.running = False
        """True from the moment the metadata are read until the broker stops."""
        self.fenced = False
        """True while this broker has no registration and cannot reach the store: it leads and
        coordinates nothing, and does not know who does. Clients are better served elsewhere."""

    def holds_lease(self) -> bool:
        """Whether no other broker can have taken over from this one without its knowing."""
        lease = self.lease
        return lease is None or lease.held(boottime())

    def check_lease(self) -> None:
        """Refuse to answer where the lease is over; raises KafkaError."""
        if not self.holds_lease():
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                "the lease of this broker has expired; another broker may have taken over",
            )
