"""Which leader each follower of this broker copies from: one fetcher for each leader's broker."""

from __future__ import annotations

import asyncio

from ottla.broker.context.broker_state import BrokerState
from ottla.broker.context.dynamic_config import DynamicConfig
from ottla.broker.replicas.partition import Partition
from ottla.broker.replication.fetched_data import FetchedData
from ottla.broker.replication.link_security import LinkSecurity
from ottla.broker.replication.replica_fetcher import ReplicaFetcher
from ottla.broker.replication.throttles import ReplicationThrottle
from ottla.metadata.image import Image


class ReplicaFetcherManager:
    """The fetchers of one broker, by the leader's broker id."""

    def __init__(
        self,
        broker: BrokerState,
        config: DynamicConfig,
        image: Image,
        fetched_data: FetchedData,
        security: LinkSecurity,
        throttle: ReplicationThrottle,
    ) -> None:
        self._security = security
        self._throttle = throttle
        self._broker = broker
        self._config = config
        self._image = image
        self._fetched_data = fetched_data
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._of: dict[Partition, ReplicaFetcher] = {}

    def add(self, partition: Partition, leader: int) -> None:
        """Copy a partition from a leader."""
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = ReplicaFetcher(
                leader,
                self._broker,
                self._config,
                self._image,
                self._fetched_data,
                self._security,
                self._throttle,
            )
        self._of[partition] = fetcher
        fetcher.add(partition)

    def remove(self, partition: Partition) -> None:
        """Stop copying a partition."""
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
