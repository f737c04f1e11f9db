"""Changes of the ISR, from the leader's proposal to what became of it in the store.

Rules kept here (the arithmetic is in `replication/replicas.py`):
1. Proposals that come together are committed together. Where a concurrent change won for one of
   them, each is committed alone.
2. Every proposal gets its outcome: accepted, refused, or unknown.
3. Followers are looked at a few times in `replica.lag.time.max.ms`, for nobody tells of silence.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from ottla.broker.context.dynamic_config import DynamicConfig
from ottla.broker.context.metadata_writer import MetadataWriter
from ottla.broker.metrics.counters import ReplicaMetrics
from ottla.broker.replicas.isr_leaving import IsrLeaving
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.scheduling.supervised import SupervisedTask
from ottla.broker.scheduling.turns import in_turns
from ottla.metadata.controller import change_isr
from ottla.metadata.image import Image
from ottla.metadata.isr_proposal import Proposal
from ottla.metadata.store import Conflict, StoreError, UnknownOutcome
from ottla.replication.replicas import Leadership

log = structlog.get_logger()

TOGETHER: Final = 200
LOOKS_IN_A_LAG: Final = 4
AGAIN_SECONDS: Final = 0.5

Change = tuple[Partition, Leadership, Proposal]


class AlterPartitionManager:
    """The changes of all partitions that one broker leads."""

    def __init__(
        self,
        config: DynamicConfig,
        image: Image,
        partitions: Partitions,
        metadata: MetadataWriter,
        isr_leaving: IsrLeaving,
        metrics: ReplicaMetrics,
    ) -> None:
        self._config = config
        self._image = image
        self._partitions = partitions
        self._metadata = metadata
        self._isr_leaving = isr_leaving
        self._metrics = metrics
        self._due: list[Change] = []
        self._committing = SupervisedTask("ISR changes", self._commit_all)
        self._watching = SupervisedTask("ISR watch", self._watch)

    def start(self) -> None:
        """Begin to look at followers."""
        self._watching.begin()

    async def stop(self) -> None:
        """Change nothing more."""
        await self._watching.stop()
        await self._committing.stop()

    def look_at(self, partition: Partition) -> None:
        """See whether the ISR of a partition that is led here must change."""
        leadership = partition.leadership
        if leadership is None:
            return
        now = asyncio.get_running_loop().time()
        proposal = leadership.propose(self._image.brokers, now)
        if proposal is not None:
            self._due.append((partition, leadership, proposal))
            self._committing.begin()

    async def _watch(self) -> None:
        while True:
            lag = self._config.current.replica_lag_time_max_ms / 1000
            await asyncio.sleep(lag / LOOKS_IN_A_LAG)
            now = asyncio.get_running_loop().time()
            async for partition in in_turns(self._partitions):
                if partition.leadership is not None:
                    partition.leadership.passes(now)
                    self.look_at(partition)
                    if partition.log.offline:
                        self._isr_leaving.disk_failed(partition)

    async def _commit_all(self) -> None:
        while self._due:
            changes, self._due = self._due[:TOGETHER], self._due[TOGETHER:]
            try:
                await self._commit(changes)
            except BaseException:
                for _, leadership, proposal in changes:
                    leadership.unknown(proposal)  # rule 2, whatever happened
                raise

    async def _commit(self, changes: list[Change]) -> None:
        image = self._image
        ops = [
            op
            for partition, _, proposal in changes
            for op in change_isr(image, (partition.topic, partition.index), proposal)
        ]
        sizes = [len(leadership.isr) for _, leadership, _ in changes]
        try:
            await self._metadata.commit(ops)
        except Conflict:
            if len(changes) > 1:
                for change in changes:
                    await self._commit([change])
                return
            ((partition, leadership, proposal),) = changes
            _tell(partition, leadership, leadership.refused(proposal))
        except UnknownOutcome as problem:
            log.warning("ISR change has an unknown outcome; retrying", reason=str(problem))
            for _, leadership, proposal in changes:
                leadership.unknown(proposal)
        except StoreError as problem:
            log.error("ISR change failed; retrying", reason=str(problem))
            for _, leadership, proposal in changes:
                # It is proposed again when the followers are looked at the next time.
                leadership.unknown(proposal)
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            for (partition, leadership, proposal), size in zip(changes, sizes, strict=True):
                log.info("ISR changed", partition=str(partition), isr=list(proposal.isr))
                self._metrics.isr_changed(size, len(proposal.isr))
                _tell(partition, leadership, leadership.accepted(proposal))


def _tell(partition: Partition, leadership: Leadership, grew: bool) -> None:
    if grew and partition.leadership is leadership:
        partition.high_watermark_grew()
