"""The leader of a partition, for clients and other rooms.

Rules kept here:
1. The image says who leads. A partition that should be led here and is not open, or whose disk
   failed, has no leader.
2. A broker without a registration does not name itself as a leader.
3. A client of the wrong broker gets the leader's id, epoch and address (KIP-951).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from ottla.broker.context.broker_state import BrokerState
from ottla.broker.replicas.partitions import Partitions
from ottla.metadata.elections import NO_LEADER
from ottla.metadata.image import NO_EPOCH, Image
from ottla.wire.produce import NodeEndpoint, TopicKey


class LeaderAndIsr(NamedTuple):
    """Who leads a partition (-1: nobody now), and which of its replicas are in sync or offline."""

    id: int
    epoch: int
    isr: list[int]
    offline: list[int]


class Leaders:
    """The leaders of all partitions of the cluster, as this broker knows them."""

    __slots__ = ("_broker", "_image", "_partitions")

    def __init__(self, image: Image, broker: BrokerState, partitions: Partitions) -> None:
        self._image = image
        self._broker = broker
        self._partitions = partitions

    def of(self, topic: str, index: int) -> LeaderAndIsr:
        """The leader of a partition."""
        image, me = self._image, self._broker.id
        state = image.partitions.get((topic, index))
        if state is None:
            return LeaderAndIsr(NO_LEADER, 0, [], [])
        brokers = image.brokers
        replicas = image.topics[topic].assignment[index]
        offline = [one for one in replicas if one not in brokers]
        isr = state.isr
        if me in replicas:
            partition = self._partitions.get(topic, index)
            if partition is None or partition.log.offline:
                offline.append(me)
                isr = [one for one in isr if one != me]
        leader = state.leader if state.leader not in offline else NO_LEADER
        if leader == me and self._broker.epoch == NO_EPOCH:
            leader = NO_LEADER  # another broker may lead by now; which one is not known yet
        return LeaderAndIsr(leader, state.leader_epoch, isr, offline)

    def hint(self, topic: TopicKey, index: int) -> tuple[int, int] | None:
        """Id and epoch of a partition's leader, where that is another broker."""
        if isinstance(topic, bytes):
            known = self._image.topics_by_id.get(UUID(bytes=topic))
        else:
            known = self._image.topics.get(topic)
        if known is None or not 0 <= index < len(known.assignment):
            return None
        leader = self.of(known.name, index)
        return None if leader.id in (NO_LEADER, self._broker.id) else (leader.id, leader.epoch)

    def endpoints(self, listener: str, leaders: Iterable[int]) -> list[NodeEndpoint]:
        """The addresses of brokers, as far as they are online and have this listener."""
        found: list[NodeEndpoint] = []
        for leader in leaders:
            broker = self._image.brokers.get(leader)
            where = None if broker is None else broker.endpoint(listener)
            if broker is not None and where is not None:
                found.append(NodeEndpoint(broker.id, where.host, where.port, broker.rack))
        return found
