"""The share partitions and share sessions of a broker (Kafka's SharePartitionManager).

Rules kept here:
1. A share partition is loaded at its first fetch, and served while this broker leads the partition
   in the same leader epoch.
2. Acknowledgements for a share partition that is not loaded get UNKNOWN_TOPIC_OR_PARTITION, as in
   Kafka: nobody can have acquired anything of it here.
3. The end of a session, or of its connection, gives back what the member holds. When no member of a
   group is left here, its share partitions are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from ottla.broker.context.broker_context import BrokerContext
from ottla.broker.metrics.share_counts import ShareCounts, SharePartitionCounts
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.scheduling.background import Background
from ottla.broker.sharing.delayed_share_fetch import (
    DelayedShareFetch,
    Fetched,
    ShareFetchParams,
)
from ottla.broker.sharing.live_partition import LivePartition, SharingTools
from ottla.broker.sharing.persister import Persister, ShareCoordinators, ShareKey
from ottla.broker.sharing.share_metrics import ShareMetrics
from ottla.broker.sharing.share_settings import ShareGroupSettings
from ottla.later import Later
from ottla.share.sessions import SessionKey, ShareSession, ShareSessions, TopicIdPartition
from ottla.share.states import Acknowledgement, AcknowledgeType
from ottla.wire.errors import ErrorCode

K = TypeVar("K")
V = TypeVar("V")


class SharePartitionManager:
    """What share groups have in flight on this broker."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        state: ShareCoordinators,
        partitions: Partitions,
        background: Background,
        cold_readers: Executor,
    ) -> None:
        _, config, clock, image = context
        self.metrics = ShareMetrics()
        self.settings = ShareGroupSettings(config, image)
        self.sessions = ShareSessions()
        self.cold_readers = cold_readers
        self._config = config
        self._partitions = partitions
        self._background = background
        persister = Persister(state, background)
        self._tools = SharingTools(clock, persister, self.settings, self.metrics)
        self._live: dict[ShareKey, LivePartition] = {}

    @property
    def live_partitions(self) -> Sequence[LivePartition]:
        """Those that are served now."""
        return list(self._live.values())

    # Share partitions ---------------------------------------------------------------------

    def live(self, group: str, where: TopicIdPartition) -> LivePartition:
        """The share partition, loaded or being loaded; raises KafkaError."""
        partition = self._partitions.find(where.topic_id.bytes, where.partition)
        key = ShareKey(group, where)
        found = self._live.get(key)
        if found is not None:
            if found.partition is partition and found.leader_epoch == partition.leader_epoch:
                return found
            found.drop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        live = self._live[key] = LivePartition(self._tools, key, partition, self._forget)
        self._background.run(live.load())
        return live

    def _forget(self, live: LivePartition) -> None:
        if self._live.get(live.key) is live:
            del self._live[live.key]
            self.metrics.dropped(live.key)

    def ends_to_lead(self, partition: Partition) -> None:
        """A partition is no longer led here."""
        where = TopicIdPartition(partition.topic_id, partition.index)
        for live in self.live_partitions:
            if live.key.where == where:
                live.drop(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def stop(self) -> None:
        """Stop serving."""
        for live in self.live_partitions:
            live.drop(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # Requests -----------------------------------------------------------------------------

    def fetch(
        self, params: ShareFetchParams, wanted: Sequence[TopicIdPartition]
    ) -> Fetched | Later[Fetched]:
        """Acquire records for a member, now or later."""
        return DelayedShareFetch(self, params, wanted).begin()

    def acknowledge(
        self,
        group: str,
        member: str,
        given: Mapping[TopicIdPartition, Sequence[Acknowledgement]],
    ) -> Later[dict[TopicIdPartition, ErrorCode]]:
        """Take a member's acknowledgements; the outcome is there when they are stored."""
        outcomes: dict[TopicIdPartition, Later[ErrorCode]] = {}
        for where, batches in given.items():
            live = self._live.get(ShareKey(group, where))
            if live is None:
                outcomes[where] = _completed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                outcomes[where] = live.acknowledge(member, batches)

        def count(codes: dict[TopicIdPartition, ErrorCode]) -> dict[TopicIdPartition, ErrorCode]:
            for where, code in codes.items():
                if code == ErrorCode.NONE:
                    self.metrics.stored(given[where])
            return codes

        return gathered(outcomes).map(count)

    # Metrics ------------------------------------------------------------------------------

    def counts(self) -> ShareCounts:
        """What all share partitions have done."""
        metrics, sessions = self.metrics, self.sessions
        return ShareCounts(
            len(sessions),
            sessions.partitions,
            sessions.evictions,
            {kind.name.lower(): metrics.acknowledged[kind] for kind in AcknowledgeType},
            metrics.loads,
            metrics.load_ms,
            metrics.expired_fetches,
        )

    def partition_counts(self) -> Iterator[SharePartitionCounts]:
        """What each share partition has in flight."""
        for live in self.live_partitions:
            machine = live.machine
            if machine is not None:
                yield SharePartitionCounts(
                    live.key.group,
                    live.partition.topic,
                    live.partition.index,
                    machine.in_flight,
                    len(machine.runs),
                    self.metrics.lock_timeouts[live.key],
                )

    # Sessions -----------------------------------------------------------------------------

    def open_session(
        self, key: SessionKey, connection: int, wanted: Sequence[TopicIdPartition]
    ) -> ShareSession:
        """Open a member's session; raises KafkaError."""
        most = self._config.current.group_share_max_share_sessions
        return self.sessions.open(key, connection, wanted, most)

    def close_session(self, key: SessionKey) -> None:
        """A member's session ends."""
        session = self.sessions.remove(key)
        if session is not None:
            self._end(session)

    def connection_closed(self, connection: int) -> None:
        """A client's connection has ended, and with it its sessions."""
        for session in self.sessions.connection_closed(connection):
            self._end(session)

    def _end(self, session: ShareSession) -> None:
        """Without a session its group's share partitions are read again: offsets may be altered."""
        self._release(session)
        if not self.sessions.has_group(session.key.group):
            self._group_left(session.key.group)

    def _release(self, session: ShareSession) -> None:
        """Also what it holds of partitions that the session has forgotten since."""
        for live in self.live_partitions:
            if live.key.group == session.key.group:
                live.release(session.key.member)

    def _group_left(self, group: str) -> None:
        for live in self.live_partitions:
            if live.key.group == group:
                live.drop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.settings.forget(group)


def gathered(waiting: Mapping[K, Later[V]]) -> Later[dict[K, V]]:
    """All values, when the last one is there."""
    whole: Later[dict[K, V]] = Later()
    left = len(waiting)
    if not left:
        whole.complete({})

    def one_more() -> None:
        nonlocal left
        left -= 1
        if not left:
            whole.make(lambda: {key: each.result() for key, each in waiting.items()})

    for each in waiting.values():
        each.then(one_more)
    return whole


def _completed(code: ErrorCode) -> Later[ErrorCode]:
    later: Later[ErrorCode] = Later()
    later.complete(code)
    return later
