"""The throttles of replication on one broker: what its leaders send, and what its followers take.

Rules kept here (the arithmetic is in `replication/throttle.py`):
1. Settings count from the moment they are known: rates of the broker, replicas of the topics.
2. Where no rate is set, which is nearly always, a look costs no more than that.
"""

from __future__ import annotations

import asyncio

from ottla.broker.context.broker_context import BrokerContext
from ottla.config import BrokerConfig
from ottla.metadata.image import PartitionKey
from ottla.replication.throttle import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    ReplicationQuota,
    names_replica,
)


class ReplicationThrottle:
    """One side's throttle."""

    __slots__ = (
        "_config",
        "_config_of_rate",
        "_image",
        "_quota",
        "_rate",
        "_rate_name",
        "_replicas",
    )

    def __init__(self, context: BrokerContext, rate_name: str, replicas: str) -> None:
        _, self._config, _, self._image = context
        self._rate_name = rate_name
        self._replicas = replicas
        self._quota = ReplicationQuota()
        self._config_of_rate: BrokerConfig | None = None
        self._rate: int | None = None

    def is_throttled(self, key: PartitionKey, replica: int) -> bool:
        """Whether what is copied of a partition to a broker's replica counts."""
        if self._current_rate() is None:
            return False
        topic, partition = self._image.topics.get(key[0]), self._image.partitions.get(key)
        if topic is None or partition is None or replica in partition.isr:
            return False
        broker = partition.leader if self._replicas == LEADER_REPLICAS else replica
        return names_replica(topic.configs.get(self._replicas, ""), key[1], broker)

    def wait(self) -> float:
        """For how many seconds nothing that is throttled may be copied."""
        rate = self._current_rate()
        return 0.0 if rate is None else self._quota.wait(rate, _now())

    def used(self, amount: int) -> None:
        """Bytes that count were copied."""
        rate = self._current_rate()
        if rate is not None and amount:
            self._quota.used(amount, rate, _now())

    def _current_rate(self) -> int | None:
        config = self._config.current
        if config is not self._config_of_rate:
            text = config.settings.text(self._rate_name)
            self._config_of_rate, self._rate = config, None if text is None else int(text)
        return self._rate


def leader_throttle(context: BrokerContext) -> ReplicationThrottle:
    """Of what this broker's leaders send to followers."""
    return ReplicationThrottle(context, LEADER_RATE, LEADER_REPLICAS)


def follower_throttle(context: BrokerContext) -> ReplicationThrottle:
    """Of what this broker's followers take."""
    return ReplicationThrottle(context, FOLLOWER_RATE, FOLLOWER_REPLICAS)


def _now() -> float:
    return asyncio.get_running_loop().time()
