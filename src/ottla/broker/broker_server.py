"""One broker without its sockets: builds the rooms, joins them, starts and stops them in order.

Rules kept here:
1. Nothing is decided here. A room gets the parts of others that it uses when it is built.
2. After an unclean stop the partitions are opened one by one, and those open are served meanwhile.
3. The clean-shutdown marker is written only after every log was flushed and closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import structlog

from ottla.audit.events import AUDIT_TOPIC
from ottla.broker.audit.log_counts import Audit
from ottla.broker.context.broker_context import BrokerContext
from ottla.broker.context.broker_state import BrokerState
from ottla.broker.context.clock import Clock
from ottla.broker.context.dynamic_config import DynamicConfig
from ottla.broker.coordinators.by_topic import CoordinatorsByTopic
from ottla.broker.coordinators.context import CoordinatorContext
from ottla.broker.coordinators.coordinators import MOST_REPLICAS
from ottla.broker.coordinators.group_coordinator import GroupCoordinator
from ottla.broker.coordinators.positions import group_positions
from ottla.broker.coordinators.share_coordinator import ShareCoordinator
from ottla.broker.coordinators.share_group_offsets import ShareGroupOffsets
from ottla.broker.coordinators.share_persister import SharePersister
from ottla.broker.coordinators.transaction_coordinator import TransactionCoordinator
from ottla.broker.logs.closing import close_logs
from ottla.broker.logs.log_cleaner import LogCleaner
from ottla.broker.logs.log_dir import LogDir
from ottla.broker.logs.log_loader import LogLoader
from ottla.broker.logs.log_manager import LogManager
from ottla.broker.logs.storage import storage_of
from ottla.broker.metadata.authorization import Authorization
from ottla.broker.metadata.auto_topic_creation import AutoTopicCreation
from ottla.broker.metadata.broker_lifecycle import BrokerLifecycleManager
from ottla.broker.metadata.client_quotas import ClientQuotas
from ottla.broker.metadata.cluster_id import check_not_lost, ensure_cluster_id
from ottla.broker.metadata.controller import ControllerRole
from ottla.broker.metadata.delegation_tokens import sweep_tokens
from ottla.broker.metadata.leader_balancer import LeaderBalancer
from ottla.broker.metadata.metadata_loader import MetadataLoader
from ottla.broker.metadata.metadata_publisher import MetadataPublisher
from ottla.broker.metadata.metadata_response_cache import MetadataResponseCache
from ottla.broker.metadata.own_address import log_started, own_host
from ottla.broker.metadata.producer_id_manager import ProducerIdManager
from ottla.broker.metadata.security import ensure_secret
from ottla.broker.metadata.stores import own_file
from ottla.broker.metadata.streams_topics import StreamsTopics
from ottla.broker.metrics.counters import BrokerTopicMetrics, ReplicaMetrics
from ottla.broker.metrics.group_lag import GroupPositions
from ottla.broker.replicas.fetch_context import FetchContext
from ottla.broker.replicas.isr_leaving import IsrLeaving
from ottla.broker.replicas.leaders import Leaders
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replicas.rejected_batches import RejectedBatches
from ottla.broker.replication.alter_partition import AlterPartitionManager
from ottla.broker.replication.link_security import LinkSecurity
from ottla.broker.replication.own_rights import report_own_rights
from ottla.broker.replication.peers import Peers
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.replication.throttles import leader_throttle
from ottla.broker.scheduling.background import Background
from ottla.broker.scheduling.supervised import SupervisedTask
from ottla.broker.sharing.leadership import Leaderships
from ottla.broker.sharing.share_partition_manager import SharePartitionManager
from ottla.broker.start_error import StartError
from ottla.config import BrokerConfig
from ottla.log.storage.folder import FolderError
from ottla.metadata.controller import controller_id
from ottla.metadata.image import Image
from ottla.metadata.store import StoreError
from ottla.security.listeners import link_settings

log = structlog.get_logger()


class BrokerServer:
    """A broker without its sockets."""

    def __init__(self, config: BrokerConfig) -> None:
        self.id = config.node_id
        self.ready = False
        self.ports: Mapping[str, int] = {}
        self.topic_metrics = BrokerTopicMetrics()
        self.replica_metrics = ReplicaMetrics()
        self._build_context(config)
        self._build_replicas()
        self._build_logs()
        self._build_coordinators()
        self._build_sharing()
        self._build_replication()
        self._build_metadata()
        self.audit = Audit(
            self.context,
            partitions=self.partitions,
            folder=self.folder,
            leaders=self.leaders,
            peers=self.peers,
            metadata=self.metadata,
        )

    # Building -----------------------------------------------------------------------------

    def _build_context(self, config: BrokerConfig) -> None:
        self.state = BrokerState(config.node_id)
        self.dynamic_config = DynamicConfig(config)
        self.clock = Clock()
        self.now_ms = self.clock.now_ms
        self.elapsed_ms = self.clock.elapsed_ms
        self.image = Image()
        self.context = BrokerContext(self.state, self.dynamic_config, self.clock, self.image)
        self.authorization = Authorization(config)
        self.quotas = ClientQuotas(config)
        self._sweeping = SupervisedTask("delegation tokens", self._sweep_tokens)
        self.background = Background()
        self.metadata = MetadataLoader(self.dynamic_config, self.image)

    def _build_replicas(self) -> None:
        self.partitions = Partitions()
        self.leaders = Leaders(self.image, self.state, self.partitions)
        self.rejected_batches = RejectedBatches()
        self.isr_leaving = IsrLeaving(self.id, self.metadata, self.background)
        self.alter_partition = AlterPartitionManager(
            self.dynamic_config,
            self.image,
            self.partitions,
            self.metadata,
            self.isr_leaving,
            self.replica_metrics,
        )
        self.fetches = FetchContext(
            self.context,
            partitions=self.partitions,
            leaders=self.leaders,
            isr_watch=self.alter_partition,
            background=self.background,
            throttle=leader_throttle(self.context),
        )
        self.fetch_sessions = self.fetches.sessions
        self.delayed = self.fetches.delayed
        self.decoding = self.fetches.decoding
        self.cold_readers = self.fetches.cold_readers

    def _build_logs(self) -> None:
        self.log_dir = LogDir.of(Path(self.config.log_dirs[0]), self.state)
        self.folder, self.files, self.file_cache, _, self.full_disk = self.log_dir
        self.log_manager = LogManager(
            self.context,
            log_dir=self.log_dir,
            partitions=self.partitions,
            isr_leaving=self.isr_leaving,
            background=self.background,
        )
        self.log_cleaner = LogCleaner(
            self.dynamic_config, self.clock, self.partitions, self.files, self.log_manager
        )
        self._log_loader: LogLoader | None = None

    def _build_coordinators(self) -> None:
        links = LinkSecurity(link_settings(self.config))
        self.peers = Peers(self.dynamic_config, self.image, links)
        self.producer_ids = ProducerIdManager(self.metadata, self.background)
        self.coordinators = CoordinatorContext(
            self.context,
            partitions=self.partitions,
            leaders=self.leaders,
            isr_leaving=self.isr_leaving,
            peers=self.peers,
            producer_ids=self.producer_ids,
            background=self.background,
        )
        self.transactions = TransactionCoordinator(self.coordinators)
        self.groups = GroupCoordinator(self.coordinators)
        self.share_coordinator = ShareCoordinator(self.coordinators, self.metadata)
        self.share_persister = SharePersister(self.coordinators, self.share_coordinator)
        self.share_groups = ShareGroupOffsets(self.coordinators, self.groups, self.share_persister)
        self._by_topic = CoordinatorsByTopic(self.groups, self.transactions, self.share_coordinator)
        self.auto_topic_creation = AutoTopicCreation(
            self.metadata, self.background, self._by_topic.new_topic
        )
        self.streams_topics = StreamsTopics(self.metadata, self.background, self.clock)
        self.coordinators.join(self.groups, self.auto_topic_creation, self.share_persister)

    def _build_sharing(self) -> None:
        self.sharing = SharePartitionManager(
            self.context,
            state=self.share_persister,
            partitions=self.partitions,
            background=self.background,
            cold_readers=self.cold_readers,
        )

    def _build_replication(self) -> None:
        self.replica_manager = ReplicaManager(
            self.context,
            partitions=self.partitions,
            metadata=self.metadata,
            log_dir=self.log_dir,
            log_manager=self.log_manager,
            alter_partition=self.alter_partition,
            isr_leaving=self.isr_leaving,
            peers=self.peers,
            background=self.background,
            listener=Leaderships(self._by_topic, self.sharing),
        )

    def _build_metadata(self) -> None:
        self.controller = ControllerRole(
            self.state, self.image, self.metadata, self._internal_topics
        )
        self.leader_balancer = LeaderBalancer(
            self.state, self.dynamic_config, self.image, self.metadata
        )
        self.metadata_responses = MetadataResponseCache(self.metadata, self.partitions)
        self.lifecycle = BrokerLifecycleManager(
            self.context,
            metadata=self.metadata,
            replica_manager=self.replica_manager,
            controller=self.controller,
            producer_ids=self.producer_ids,
            peers=self.peers,
        )
        self._publisher = MetadataPublisher(
            self.context,
            partitions=self.partitions,
            fetch_sessions=self.fetch_sessions,
            topic_metrics=self.topic_metrics,
            replica_metrics=self.replica_metrics,
            log_manager=self.log_manager,
            log_cleaner=self.log_cleaner,
            replica_manager=self.replica_manager,
            controller=self.controller,
            topic_listeners=(self.groups, self.share_coordinator),
            authorization=self.authorization,
            quotas=self.quotas,
            session_ended=self.lifecycle.session_ended,
        )

    def _internal_topics(self) -> dict[str, int]:
        return {**self._by_topic.replication_factors(), AUDIT_TOPIC: MOST_REPLICAS}

    # What clients see ---------------------------------------------------------------------

    @property
    def config(self) -> BrokerConfig:
        """The settings in force."""
        return self.dynamic_config.current

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self.image.cluster_id or ""

    async def group_positions(self) -> GroupPositions:
        """What the groups have committed that this broker coordinates."""
        return await group_positions(self.groups, self.id, self.image, self.partitions, self.peers)

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 before it has one."""
        return self.state.epoch

    @property
    def controller_id(self) -> int:
        """The broker that clients send changes of topics to. Any broker would do."""
        return controller_id(self.image, self.id)

    # Starting and stopping ----------------------------------------------------------------

    async def open(self) -> None:
        """Take the data folder and read the metadata; nothing is served yet."""
        folder = self.folder
        try:
            folder.lock()
            alone = own_file(self.config)
            if alone is not None and not self.files.exists(str(alone)):
                # Before the store makes a new one: its files would not go with one put back.
                check_not_lost(folder, self.config)
            await self.metadata.open(self._publisher)
            self.authorization.loaded(self.image)
            self.quotas.learned(self.image)
            await ensure_cluster_id(self.image, self.metadata, folder, self.config)
            await ensure_secret(self.config, self.metadata)
            self.lifecycle.storage = storage_of(folder, self.cluster_id, self.id)
        except (StoreError, FolderError) as problem:
            await self.close()
            raise StartError(str(problem)) from None
        except OSError as problem:
            await self.close()
            raise StartError(f"cannot use data folder {folder.path}: {problem.strerror}") from None
        self._publisher.apply_dynamic_config()
        self.state.running = True

    async def start(self, ports: Mapping[str, int]) -> None:
        """Open the logs and register, with the ports that the listeners were bound to."""
        advertised = tuple(self.config.advertised(ports, own_host()))
        self.lifecycle.advertised = advertised
        log_loader = self._begin_to_open_logs()
        self.ports = ports
        self.full_disk.keep_reserve()
        await self.lifecycle.join()
        await self.metadata.caught_up()
        await self.controller.settle()
        await log_loader.open_all()
        await self.replica_manager.claims.settle()
        self.replica_manager.start()
        self.leader_balancer.start()
        if self.config.delegation_token_secret_key:
            self._sweeping.begin()
        self.log_manager.start()
        self.log_cleaner.start()
        self.audit.start()
        log_started(self.config, ports, advertised, self.image, len(self.partitions))
        own = next(each for each in advertised if each.name == self.config.inter_broker.name)
        report_own_rights(self.config, self.authorization.authorizer, own.host)

    async def _sweep_tokens(self) -> None:
        await sweep_tokens(self.dynamic_config, self.clock, self.image, self.metadata)

    def _begin_to_open_logs(self) -> LogLoader:
        try:
            log_loader = self._log_loader = LogLoader(
                self.context,
                log_dir=self.log_dir,
                partitions=self.partitions,
                log_manager=self.log_manager,
                isr_leaving=self.isr_leaving,
                background=self.background,
                metrics_of=self.topic_metrics.of,
                serve=self.replica_manager.serve,
            )
        except OSError as problem:
            raise StartError(f"cannot use data folder {self.folder.path}: {problem}") from None
        self._publisher.begin(log_loader)
        return log_loader

    async def close(self) -> None:
        """Flush and close everything; after a failed start, what there is of it."""
        was_running, self.state.running = self.state.running, False
        await self.lifecycle.stop()
        await self.controller.stop()
        await self.leader_balancer.stop()
        await self._sweeping.stop()
        await self.replica_manager.stop()
        self.sharing.stop()
        self.transactions.stop()
        self.groups.stop()
        self.share_coordinator.stop()
        await self.audit.stop()
        self.peers.close()
        await self.log_cleaner.stop()
        self.auto_topic_creation.stop()
        await asyncio.gather(self.metadata.stop(), *self.background, return_exceptions=True)
        await self.log_manager.stop()
        self.fetches.stop()
        if was_running and self.ports and self._log_loader is not None:
            await self._log_loader.stop()
            clean = await close_logs(self.log_dir, self.partitions) and self._log_loader.all_open
            try:
                await self.log_manager.checkpoint()
                if clean:
                    self.folder.write_clean_mark()
            except OSError as problem:
                log.error("failed to write checkpoints", reason=str(problem))
        await self.metadata.close()
        self.folder.unlock()
