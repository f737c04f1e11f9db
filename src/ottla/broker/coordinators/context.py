"""What the coordinators of a broker use of the other rooms.

Coordinators take this instead of the broker. Two of its parts are given later, by `join`: groups,
and the creation of internal topics, which themselves need coordinators.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol
from uuid import UUID

from ottla.broker.context.broker_context import BrokerContext
from ottla.broker.coordinators.lingering import LingeringWrites
from ottla.broker.coordinators.markers import marker_batch
from ottla.broker.replicas.isr_leaving import IsrLeaving
from ottla.broker.replicas.leaders import Leaders
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replication.peers import Peers
from ottla.broker.scheduling.background import Background
from ottla.config import BrokerConfig
from ottla.config.topic_names import GROUP_METADATA
from ottla.records.control import Marker


class ProducerIdAllocation(Protocol):
    """Gives out producer ids."""

    async def next(self) -> int:
        """An id that no producer has had; raises KafkaError."""


class TopicCreation(Protocol):
    """Creates topics that a client only named."""

    async def create(self, names: list[str]) -> None:
        """Returns when that is done, or takes too long."""


class GroupPartitions(Protocol):
    """The group coordinators, as far as transactions end in their partitions."""

    def write_out(self, partition: int) -> None:
        """Append the records of a partition that linger, before others follow."""

    def transaction_ended(self, partition: int, marker: Marker) -> None:
        """A transaction's marker was appended to one of the partitions."""


class ShareStateInitialization(Protocol):
    """The share coordinators of the cluster, as far as the group coordinators ask them."""

    async def initialize(
        self, group_id: str, state_epoch: int, offsets: Mapping[UUID, Mapping[int, int]]
    ) -> dict[UUID, frozenset[int]]:
        """Initialize share partitions at these start offsets; returns those that failed."""


class CoordinatorContext:
    """What every coordinator of one broker uses."""

    groups: GroupPartitions
    topic_creation: TopicCreation
    share_state: ShareStateInitialization

    def __init__(
        self,
        context: BrokerContext,
        *,
        partitions: Partitions,
        leaders: Leaders,
        isr_leaving: IsrLeaving,
        peers: Peers,
        producer_ids: ProducerIdAllocation,
        background: Background,
    ) -> None:
        broker, config, clock, image = context
        self.id = broker.id
        self._broker = broker
        self.image = image
        self.partitions = partitions
        self.isr_leaving = isr_leaving
        self.peers = peers
        self.background = background
        self.now_ms = clock.now_ms
        self.holds_lease = broker.holds_lease
        self.leader_of = leaders.of
        self.new_producer_id = producer_ids.next
        self._config = config
        self.loading = asyncio.Lock()
        """Held by the coordinator that is loaded: a broker may get dozens at once, and each takes
        turns of the loop."""
        self.lingering = LingeringWrites()

    def join(
        self,
        groups: GroupPartitions,
        topic_creation: TopicCreation,
        share_state: ShareStateInitialization,
    ) -> None:
        """Take the parts that need coordinators themselves."""
        self.groups = groups
        self.topic_creation = topic_creation
        self.share_state = share_state

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration."""
        return self._broker.epoch

    @property
    def config(self) -> BrokerConfig:
        """The settings in force."""
        return self._config.current

    def end_transaction(
        self, partition: Partition, marker: Marker, transaction_version: int
    ) -> None:
        """Write a transaction's marker into a partition; raises KafkaError."""
        if partition.topic == GROUP_METADATA:
            self.groups.write_out(partition.index)
        now = self.now_ms()
        partition.append_marker(marker_batch(marker, now), now, transaction_version)
        if partition.topic == GROUP_METADATA:
            self.groups.transaction_ended(partition.index, marker)
