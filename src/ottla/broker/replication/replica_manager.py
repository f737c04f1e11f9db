"""The role of every replica of this broker: what the image says, carried out.

Rules kept here:
1. A replica leads where the image names this broker, in its present broker epoch. It stops copying
   first.
2. A new leader epoch is a new term, also for who led before: waiting requests fail, and
   coordinators load again.
3. Within a term the leader learns what else the store says of the partition.
4. A replica that is not assigned to this broker has no role. Its log may be deleted at any time, so
   no fetch is sent for it: the leader would count the position if the replica is added again.
5. No role is taken in a leader epoch that is older than the log's (`older_epochs`).
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from ottla.broker.context.broker_context import BrokerContext
from ottla.broker.context.metadata_writer import MetadataWriter
from ottla.broker.logs.log_dir import LogDir
from ottla.broker.logs.log_manager import LogManager
from ottla.broker.replicas.isr_leaving import IsrLeaving
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replication.alter_partition import AlterPartitionManager
from ottla.broker.replication.fetched_data import FetchedData
from ottla.broker.replication.leader_claims import LeaderClaims
from ottla.broker.replication.older_epochs import OlderEpochs
from ottla.broker.replication.peers import Peers
from ottla.broker.replication.replica_fetcher_manager import ReplicaFetcherManager
from ottla.broker.replication.throttles import follower_throttle
from ottla.broker.scheduling.background import Background
from ottla.metadata.elections import NO_LEADER, leads
from ottla.metadata.image import Delta, PartitionImage, TopicImage
from ottla.replication.follower import Following
from ottla.replication.replicas import Leadership


class LeadershipListener(Protocol):
    """Does more with partitions that this broker leads, as coordinators do."""

    def begins_to_lead(self, partition: Partition) -> None:
        """This broker leads a partition from now on."""

    def ends_to_lead(self, partition: Partition) -> None:
        """This broker no longer leads a partition."""


class ReplicaManager:
    """Leads and follows for one broker."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        partitions: Partitions,
        metadata: MetadataWriter,
        log_dir: LogDir,
        log_manager: LogManager,
        alter_partition: AlterPartitionManager,
        isr_leaving: IsrLeaving,
        peers: Peers,
        background: Background,
        listener: LeadershipListener,
    ) -> None:
        broker, config, clock, image = context
        self._broker = broker
        self._config = config
        self._image = image
        self._partitions = partitions
        self.fetched_data = FetchedData(
            broker.id,
            image=image,
            clock=clock,
            log_dir=log_dir,
            log_manager=log_manager,
            isr_leaving=isr_leaving,
        )
        self.fetchers = ReplicaFetcherManager(
            broker,
            config,
            image,
            self.fetched_data,
            peers.security,
            follower_throttle(context),
        )
        self.alter_partition = alter_partition
        self.claims = LeaderClaims(broker, config, image, partitions, metadata, isr_leaving)
        self._older_epochs = OlderEpochs(broker, image, metadata, background)
        self._peers = peers
        self._listener = listener

    def start(self) -> None:
        """Begin to watch over followers."""
        self.alter_partition.start()

    async def stop(self) -> None:
        """Copy nothing more, and change no ISR."""
        await self.claims.stop()
        await self.fetchers.stop()
        await self.alter_partition.stop()

    def learned(self, delta: Delta) -> None:
        """The image has changed: partitions, or where brokers are found."""
        touched = {(each.topic, each.index) for each in delta.changed_partitions}
        for topic in delta.changed_topics:
            touched.update((topic.name, index) for index in range(len(topic.assignment)))
        for key in touched:
            partition = self._partitions.get(*key)
            if partition is not None:
                self.take(partition)
        if delta.brokers_up or delta.brokers_down:
            self.fetchers.brokers_changed()
            self._peers.brokers_changed()
        self.claims.learned(delta)

    def serve(self, partition: Partition) -> None:
        """A replica was opened: serve it in its role, or claim one."""
        self._partitions.put(partition)
        self.take(partition)
        self.claims.look_at(partition)

    def take_all(self) -> None:
        """This broker has a new broker epoch: look at every role."""
        for partition in self._partitions:
            self.take(partition)

    def take(self, partition: Partition) -> None:
        """Give a replica the role that the image has for it."""
        state = self._image.partitions.get((partition.topic, partition.index))
        topic = self._image.topics.get(partition.topic)
        if (
            state is None
            or topic is None
            or topic.id != partition.topic_id
            or state.topic_id != partition.topic_id
        ):
            return  # it is being deleted
        if self._broker.id not in topic.assignment[partition.index]:
            self._stand_by(partition, state)
            return
        is_leader = leads(state, self._broker.id, self._broker.epoch)
        if self._older_epochs.refuses(partition, state, leads=is_leader):
            self._resign(partition)
            partition.follow(partition.log.epochs.latest, None)
        elif is_leader:
            self._lead(partition, state, topic)
        else:
            self._follow(partition, state)

    def _stand_by(self, partition: Partition, state: PartitionImage) -> None:
        """The replica was removed, and its log will be deleted: fetch nothing more for it."""
        self._resign(partition)
        partition.follow(state.leader_epoch, None)

    def give_up(self, partition: Partition) -> None:
        """A replica leaves this broker."""
        self._resign(partition)

    # Leading ------------------------------------------------------------------------------

    def _lead(self, partition: Partition, state: PartitionImage, topic: TopicImage) -> None:
        replicas = topic.assignment[partition.index]
        if partition.leads and partition.leader_epoch == state.leader_epoch:
            self._go_on(partition, state, replicas)
            return
        self._resign(partition)
        leadership = None if len(replicas) == 1 else self._leadership(partition, state, replicas)
        partition.lead(state.leader_epoch, leadership)
        self._listener.begins_to_lead(partition)

    def _go_on(self, partition: Partition, state: PartitionImage, replicas: list[int]) -> None:
        leadership = partition.leadership
        if leadership is None:
            if len(replicas) > 1:
                partition.get_replicas(self._leadership(partition, state, replicas))
            return
        grew = leadership.learned(state)
        if replicas != leadership.replicas:
            grew |= leadership.assigned(replicas, self.now())
            partition.wake_followers()  # replicas that were removed or must fetch again learn it
        if grew:
            partition.high_watermark_grew()
        self.alter_partition.look_at(partition)

    def _leadership(
        self, partition: Partition, state: PartitionImage, replicas: list[int]
    ) -> Leadership:
        return Leadership(
            self._broker.id,
            state,
            replicas,
            log_end=partition.log.end_offset,
            high_watermark=partition.high_watermark,
            min_isr=partition.log.config.min_insync_replicas,
            lag=self._config.current.replica_lag_time_max_ms / 1000,
            now=self.now(),
        )

    def configured(self, partition: Partition) -> None:
        """The settings of a partition have changed."""
        leadership = partition.leadership
        if leadership is not None and leadership.configured(
            partition.log.config.min_insync_replicas,
            self._config.current.replica_lag_time_max_ms / 1000,
        ):
            partition.high_watermark_grew()

    # Following ----------------------------------------------------------------------------

    def _follow(self, partition: Partition, state: PartitionImage) -> None:
        following = partition.following
        leader = NO_LEADER if state.leader == self._broker.id else state.leader
        known = NO_LEADER if following is None else following.leader
        same_term = partition.leader_epoch == state.leader_epoch and known == leader
        if same_term and not partition.leads:
            return
        self._resign(partition)
        following = None
        if leader != NO_LEADER:
            agreed = max(partition.agreed_epoch, partition.log.epochs.latest)
            may_lose = state.unclean_epoch > agreed
            following = Following(leader, state.leader_epoch, may_lose=may_lose)
        partition.follow(state.leader_epoch, following)
        if following is not None:
            self.fetchers.add(partition, leader)

    def _resign(self, partition: Partition) -> None:
        """End the term, whatever it was."""
        self.fetchers.remove(partition)
        if partition.leads:
            partition.stand_by()
            self._listener.ends_to_lead(partition)
            partition.fail_waiters()

    @staticmethod
    def now() -> float:
        """The clock of followers' lags."""
        return asyncio.get_running_loop().time()
