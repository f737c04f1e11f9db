"""Which leader each follower of this broker copies from: one fetcher for each leader's broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.replicas.partition import Partition
from ottla.broker.replication.fetcher import ReplicaFetcher

if TYPE_CHECKING:
    from ottla.broker.node import Node


class ReplicaFetchers:
    """The fetchers of one node, by the leader's broker id."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._of: dict[Partition, ReplicaFetcher] = {}

    def add(self, partition: Partition, leader: int) -> None:
        """Copy a partition from a leader."""
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = ReplicaFetcher(self._node, leader)
        self._of[partition] = fetcher
        fetcher.add(partition)

    def remove(self, partition: Partition) -> None:
        """Copy a partition no more."""
        fetcher = self._of.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)

    def brokers_changed(self) -> None:
        """Brokers have come, gone or moved."""
        for fetcher in self._fetchers.values():
            fetcher.brokers_changed()

    async def stop(self) -> None:
        """Copy nothing more."""
        fetchers, self._fetchers = self._fetchers, {}
        await asyncio.gather(*(fetcher.stop() for fetcher in fetchers.values()))
