"""How a leader handles a follower's fetch, one partition at a time.

Rules kept here (the arithmetic is in `replication/replicas.py` and `replication/epochs.py`):
1. A position is noted once for each request, however often a parked fetch is looked at.
2. It counts only where the follower knows this term, has the broker epoch that is known, and has a
   log that agrees with the leader's as far as it goes. A broker epoch above the registered one is
   answered "ask again" and noted nowhere: the image may lag behind a restart, but a made-up
   epoch must not push the real broker out of the ISR.
3. A follower reads to the end of the log: what it copies is what gets committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.broker.replicas.fetch_context import FetchContext
from ottla.broker.replicas.partition import Partition
from ottla.metadata.image import NO_EPOCH, BrokerImage
from ottla.replication.epochs import check_start
from ottla.replication.replicas import Leadership
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch import FetchPartition, FetchRequest
from ottla.wire.produce import TopicKey


class FollowerEpoch(NamedTuple):
    """A follower, and its broker epoch."""

    broker: int
    broker_epoch: int


def follower_of(request: FetchRequest) -> FollowerEpoch | None:
    """The broker that asks; None where it is a consumer."""
    return (
        FollowerEpoch(request.replica_id, request.replica_epoch)
        if request.replica_id >= 0
        else None
    )


def note_positions(
    context: FetchContext,
    follower: FollowerEpoch,
    topics: Iterable[tuple[TopicKey, list[FetchPartition]]],
) -> None:
    """Note the follower's position; errors of a fetch are in its response."""
    now = asyncio.get_running_loop().time()
    for topic, asks in topics:
        for ask in asks:
            try:
                partition = context.partitions.find(topic, ask.partition)
                if check(partition, follower, ask, context.image.brokers) is None:
                    _note(context, partition, follower, ask, now)
            except KafkaError:
                pass


def check(
    partition: Partition,
    follower: FollowerEpoch,
    ask: FetchPartition,
    brokers: Mapping[int, BrokerImage],
) -> tuple[int, int] | None:
    """Refuse a fetch that cannot be answered; says where the logs part, if they do."""
    leadership = _leadership(partition)
    live = brokers.get(follower.broker)
    registered = leadership.isr.get(follower.broker, NO_EPOCH) if live is None else live.epoch
    if follower.broker_epoch > registered:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"broker {follower.broker} is not registered with epoch {follower.broker_epoch}",
        )
    leadership.check_fetch(follower.broker, follower.broker_epoch, ask.current_leader_epoch)
    its_log = partition.log
    check_start(
        its_log.epochs,
        its_log.start_offset,
        ask.fetch_offset,
        ask.log_start_offset,
        ask.last_fetched_epoch,
    )
    if ask.last_fetched_epoch < 0:
        return None
    return partition.diverging_epoch(ask.last_fetched_epoch, ask.fetch_offset)


def _note(
    context: FetchContext,
    partition: Partition,
    follower: FollowerEpoch,
    ask: FetchPartition,
    now: float,
) -> None:
    leadership = _leadership(partition)
    grew = leadership.fetched(
        follower.broker, follower.broker_epoch, ask.fetch_offset, ask.log_start_offset, now
    )
    if grew:
        partition.high_watermark_grew()
    known = leadership.isr.get(follower.broker)
    if known != follower.broker_epoch:
        context.isr_watch.look_at(partition)


def _leadership(partition: Partition) -> Leadership:
    if partition.leadership is None:
        # It may know of an assignment that we do not know of yet: let it ask again.
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{partition} has no other replica")
    return partition.leadership
