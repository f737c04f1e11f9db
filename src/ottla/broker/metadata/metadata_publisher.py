"""Applies changes of the metadata to the rooms of this broker: logs, roles, groups, settings.

Rules kept here:
1. Replicas that have gone are removed first, then new ones are opened, then roles are given: a role
   needs an open log.
2. What fails for one topic does not keep the others from being served.
3. Before the logs are opened at the start there is nothing to apply: opening takes what the image
   has then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from ottla.broker.context.broker_context import BrokerContext
from ottla.broker.logs.log_cleaner import LogCleaner
from ottla.broker.logs.log_loader import LogLoader
from ottla.broker.logs.log_manager import LogManager
from ottla.broker.logs.log_settings import log_config
from ottla.broker.logs.replica_removal import ReplicaRemoval
from ottla.broker.metadata.authorization import Authorization
from ottla.broker.metadata.client_quotas import ClientQuotas
from ottla.broker.metadata.controller import ControllerRole
from ottla.broker.metrics.counters import BrokerTopicMetrics, ReplicaMetrics
from ottla.broker.replicas.fetch_sessions import FetchSessions
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.metadata.controller import is_controller
from ottla.metadata.image import Delta, TopicImage

log = structlog.get_logger()


class TopicsListener(Protocol):
    """Learns of topics that were created, deleted or changed, as group coordinators do."""

    def topics_changed(self, deleted: list[TopicImage]) -> None:
        """Topics have changed."""


class MetadataPublisher:
    """Brings the rooms of one broker in line with its image."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        partitions: Partitions,
        fetch_sessions: FetchSessions,
        topic_metrics: BrokerTopicMetrics,
        replica_metrics: ReplicaMetrics,
        log_manager: LogManager,
        log_cleaner: LogCleaner,
        replica_manager: ReplicaManager,
        controller: ControllerRole,
        topic_listeners: Sequence[TopicsListener],
        authorization: Authorization,
        quotas: ClientQuotas,
        session_ended: Callable[[str], None],
    ) -> None:
        broker, config, _, image = context
        self._broker = broker
        self._config = config
        self._image = image
        self._partitions = partitions
        self._fetch_sessions = fetch_sessions
        self._replica_manager = replica_manager
        self._replica_metrics = replica_metrics
        self._controller = controller
        self._topic_listeners = topic_listeners
        self._authorization = authorization
        self._quotas = quotas
        self.session_ended = session_ended
        self._removal = ReplicaRemoval(
            broker.id,
            image=image,
            partitions=partitions,
            topic_metrics=topic_metrics,
            log_manager=log_manager,
            log_cleaner=log_cleaner,
            give_up=replica_manager.give_up,
        )
        self._log_loader: LogLoader | None = None

    def begin(self, log_loader: LogLoader) -> None:
        """Logs can be opened and removed from now on."""
        self._log_loader = log_loader

    def learned(self, delta: Delta) -> None:
        """The image has changed."""
        if delta.security:
            self._authorization.learned(delta.security)
            if delta.security.quotas_changed:
                self._quotas.learned(self._image)
        here = self._log_loader is not None and is_controller(
            self._image, self._broker.id, self._broker.epoch
        )
        for each in delta.changed_partitions:
            if each.unclean_epoch >= 0:
                self._replica_metrics.elected(
                    each.topic_id, each.index, each.unclean_epoch, here=here
                )
        self._controller.learned(delta)

    async def publish(self, delta: Delta) -> None:
        """Apply one change."""
        log_loader, removal = self._log_loader, self._removal
        if log_loader is None:
            return  # rule 3
        for topic in delta.deleted_topics:
            await removal.delete_topic(log_loader, topic)
        for topic in delta.missing_topics:
            await removal.set_topic_aside(log_loader, topic)
        for topic in (*delta.created_topics, *delta.changed_topics):
            try:
                await removal.give_up_replicas(log_loader, topic)
                await log_loader.open_new_partitions(topic)
                self._configure_topic(topic)
            except Exception:  # rule 2
                log.exception("failed to open topic", topic=topic.name)
        self._replica_manager.learned(delta)
        log_loader.lost.learned(delta)
        gone = delta.deleted_topics or delta.missing_topics
        if delta.created_topics or gone or delta.changed_topics:
            for listener in self._topic_listeners:
                listener.topics_changed(delta.deleted_topics)
        if delta.changed_broker_configs:
            self.apply_dynamic_config()

    def apply_dynamic_config(self) -> None:
        """Take the broker's dynamic settings from the image."""
        if not self._config.update(self._image, self._broker.id):
            return
        slots = self._config.current.max_incremental_fetch_session_cache_slots
        self._fetch_sessions.slots = slots
        for topic in self._image.topics.values():
            self._configure_topic(topic)

    def _configure_topic(self, topic: TopicImage) -> None:
        settings = log_config(topic.configs, self._config.current)
        for partition in self._partitions.of_topic(topic.name):
            if partition.log.config != settings:
                partition.log.set_config(settings)
                self._replica_manager.configured(partition)
