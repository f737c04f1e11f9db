"""Claiming partitions that no live broker can lead, for the replicas that are open here.

Rules kept here (who may claim is decided in `metadata/claims.py`):
1. A partition is looked at when its log was opened, when it lost its leader, and when brokers or
   settings changed: whatever a decision depends on.
2. LeaderClaims that are due together are committed together, some hundred at a time. While logs are
   opened at the start, a full commit is waited for.
3. Partitions that nobody may claim are logged once, with the brokers that they wait for.
4. A replica whose log is short, though nobody could know, leaves the ISR: after another restart it
   would be taken for whole.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import structlog

from ottla.broker.context.broker_state import BrokerState
from ottla.broker.context.dynamic_config import DynamicConfig
from ottla.broker.context.metadata_writer import MetadataWriter
from ottla.broker.replicas.isr_leaving import IsrLeaving
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.scheduling.supervised import SupervisedTask
from ottla.metadata.claims import claim_all, is_unseen_loss, is_vacant, waits_for
from ottla.metadata.controller import PARTITIONS_IN_ONE_COMMIT
from ottla.metadata.image import NO_EPOCH, Delta, Image, PartitionKey, TopicImage
from ottla.metadata.store import Op, SessionEnded, StoreError

log = structlog.get_logger()

UNCLEAN: Final = "unclean.leader.election.enable"
AGAIN_SECONDS: Final = 1.0
NAMED_IN_ONE_LINE: Final = 20


class LeaderClaims:
    """The claims of one broker."""

    def __init__(
        self,
        broker: BrokerState,
        config: DynamicConfig,
        image: Image,
        partitions: Partitions,
        metadata: MetadataWriter,
        isr_leaving: IsrLeaving,
    ) -> None:
        self._broker = broker
        self._config = config
        self._image = image
        self._partitions = partitions
        self._metadata = metadata
        self._isr_leaving = isr_leaving
        self._due: dict[PartitionKey, None] = {}
        self._told: dict[PartitionKey, list[int]] = {}
        self._work = SupervisedTask("leader claims", self._claim_due)
        self._least = PARTITIONS_IN_ONE_COMMIT
        """This many claims must be due before they are made."""

    def look_at(self, partition: Partition) -> None:
        """A replica was opened."""
        self._look_at((partition.topic, partition.index))

    def learned(self, delta: Delta) -> None:
        """The image has changed."""
        if delta.brokers_up or delta.brokers_down or delta.changed_broker_configs:
            self.look_at_all()
            return
        for state in delta.changed_partitions:
            self._look_at((state.topic, state.index))
        for topic in delta.changed_topics:
            for index in range(len(topic.assignment)):
                self._look_at((topic.name, index))

    def look_at_all(self) -> None:
        """Look at all replicas: brokers or settings have changed, or this broker's epoch."""
        for partition in self._partitions:
            self.look_at(partition)

    async def settle(self) -> None:
        """Logs are open: make all claims that are due, and from now on each one at once."""
        self._least = 1
        self._begin()
        await self._work.settled()

    async def stop(self) -> None:
        """Claim nothing more."""
        await self._work.stop()

    def _look_at(self, key: PartitionKey) -> None:
        state = self._image.partitions.get(key)
        if state is None or not is_vacant(state, self._image.brokers):
            self._told.pop(key, None)
            return
        self._due[key] = None
        self._begin()

    def _begin(self) -> None:
        if self._is_time():
            self._work.begin()

    def _is_time(self) -> bool:
        broker = self._broker
        return len(self._due) >= self._least and broker.running and broker.epoch != NO_EPOCH

    async def _claim_due(self) -> None:
        while self._is_time():
            keys = [key for key in self._due if self._is_open(key)][:PARTITIONS_IN_ONE_COMMIT]
            if not keys:
                self._due.clear()  # they are looked at again when they are open
                return
            try:
                claimed = await self._metadata.change(partial(self._decide, keys))
            except SessionEnded:
                return
            except StoreError as problem:
                log.error("failed to claim leadership; retrying", reason=str(problem))
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            for key in keys:
                self._due.pop(key, None)
            self._leave_where_short(keys)
            self._tell(keys, set(claimed))

    def _decide(
        self, keys: list[PartitionKey], image: Image
    ) -> tuple[list[PartitionKey], list[Op]]:
        me = self._broker.id
        return claim_all(image, filter(self._is_open, keys), me, self._unclean, self._is_short)

    def _is_short(self, key: PartitionKey) -> bool:
        partition = self._partitions.get(*key)
        return partition is not None and partition.is_short

    def _leave_where_short(self, keys: list[PartitionKey]) -> None:
        for key in keys:
            partition = self._partitions.get(*key)
            if partition is None or not partition.is_short:
                continue
            if is_unseen_loss(self._image, key, self._broker.id):
                log.error(
                    "log ends before records that were known as committed; leaving the ISR",
                    partition=str(partition),
                    end_offset=partition.log.end_offset,
                )
                self._isr_leaving.leave(key, partition.topic_id, is_lost=True)

    def _is_open(self, key: PartitionKey) -> bool:
        partition = self._partitions.get(*key)
        return partition is not None and not partition.log.offline

    def _tell(self, keys: list[PartitionKey], claimed: set[PartitionKey]) -> None:
        image = self._image
        unclean: list[PartitionKey] = []
        waiting: dict[tuple[int, ...], list[PartitionKey]] = {}
        for key in keys:
            state = image.partitions.get(key)
            if state is None:
                continue
            if key in claimed and state.unclean_epoch == state.leader_epoch:
                unclean.append(key)
            missed = waits_for(state, image.brokers) if is_vacant(state, image.brokers) else []
            if missed and self._told.get(key) != missed:
                self._told[key] = missed
                waiting.setdefault(tuple(missed), []).append(key)
        if unclean:
            log.error(
                "unclean leader election; committed records may be lost",
                count=len(unclean),
                partitions=_names(unclean),
            )
        for brokers, partitions in waiting.items():
            log.error(
                "partition has no leader: no replica with its records is online. Start the "
                "brokers in waits_for with their disks, or allow an unclean leader election",
                count=len(partitions),
                partitions=_names(partitions),
                waits_for=list(brokers),
            )

    def _unclean(self, topic: TopicImage) -> bool:
        chosen = topic.configs.get(UNCLEAN)
        if chosen is None:
            return self._config.current.unclean_leader_election_enable
        return chosen.strip().lower() == "true"


def _names(keys: list[PartitionKey]) -> str:
    names = [f"{topic}-{index}" for topic, index in keys[:NAMED_IN_ONE_LINE]]
    return ", ".join(names + ["..."] * (len(keys) > NAMED_IN_ONE_LINE))
