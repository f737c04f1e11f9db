"""Consumers that read from a replica near them (KIP-392).

Rules kept here:
1. A leader sends a consumer that names its rack to an in-sync follower of that rack, where
   `replica.selector.class` says so. It gets no records along with that.
2. A follower serves consumers that name a rack, up to the high watermark that it knows.
3. What lies past that, and may be committed all the same, is OFFSET_NOT_AVAILABLE here: the
   consumer asks again.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.replicas.fetch_context import FetchContext
from ottla.broker.replicas.partition import Partition
from ottla.replication.read_replica import preferred_read_replica
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.produce import TopicKey

BY_RACK: Final = "RackAwareReplicaSelector"


def better_replica(
    context: FetchContext, partition: Partition, rack: str, offset: int, listener: str
) -> int:
    """The broker that a consumer of a rack should read from; -1 where it is this one."""
    leadership = partition.leadership
    if leadership is None or not (context.config.current.replica_selector_class or "").endswith(
        BY_RACK
    ):
        return -1
    found = preferred_read_replica(leadership, rack, offset, context.image.brokers, listener)
    return -1 if found is None else found


def copy_of(context: FetchContext, topic: TopicKey, index: int, offset: int) -> Partition | None:
    """The follower's copy that a consumer may read here; None where there is none."""
    partition = context.partitions.replica(topic, index)
    if partition is None or partition.following is None:
        return None
    if offset > partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return partition
