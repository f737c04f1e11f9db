"""Listeners for leadership of partitions on this broker: coordinators and share partitions."""

from __future__ import annotations

from ottla.broker.replicas.partition import Partition
from ottla.broker.replication.replica_manager import LeadershipListener
from ottla.broker.sharing.share_partition_manager import SharePartitionManager


class Leaderships:
    """Tells coordinators and share partitions."""

    def __init__(self, coordinators: LeadershipListener, sharing: SharePartitionManager) -> None:
        self._coordinators = coordinators
        self._sharing = sharing

    def begins_to_lead(self, partition: Partition) -> None:
        """A partition is led here."""
        self._coordinators.begins_to_lead(partition)

    def ends_to_lead(self, partition: Partition) -> None:
        """A partition is no longer led here."""
        self._sharing.ends_to_lead(partition)
        self._coordinators.ends_to_lead(partition)
