"""Copying from one leader's broker: what is fetched, over which connection, until it is stopped.

Rules kept here (what an answer means is in `replication/follower.py`):
1. One fetch is under way at a time. It names the partitions that have changed since the last one;
   the leader remembers the others (KIP-227). It carries this broker's epoch; with a new epoch of
   this broker all partitions are named again, for the leader counts no position of an earlier one.
2. A partition that failed is forgotten by the leader's session, and asked for again after
   `replica.fetch.backoff.ms`, also where the session starts over meanwhile. A connection that
   failed is reopened after as long, or when the image tells of brokers.
3. What a partition answers concerns that partition alone.
4. A partition that is throttled and not in sync is not asked for until there is room again.
5. A broker that is not registered asks for nothing: whatever it asked would be refused. Nor does
   one that could only ask for nothing: it would be answered at once.
"""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import UUID

import structlog

from ottla.broker.context.broker_state import BrokerState
from ottla.broker.context.dynamic_config import DynamicConfig
from ottla.broker.replicas.partition import Partition
from ottla.broker.replication.fetched_data import FetchedData
from ottla.broker.replication.link import Link, LinkError
from ottla.broker.replication.link_security import LinkSecurity
from ottla.broker.replication.throttles import ReplicationThrottle
from ottla.metadata.image import NO_EPOCH, BrokerImage, Image
from ottla.replication.follower import FollowerFetch
from ottla.wire.errors import ErrorCode
from ottla.wire.fetch import INITIAL_EPOCH
from ottla.wire.fetch_answer import FetchAnswer, PartitionAnswer, read_answer
from ottla.wire.fields import DecodeError
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

log = structlog.get_logger()

VERSION: Final = 18
BYTES_IN_ONE_TURN: Final = 1 << 20
SHORTEST_TRY_SECONDS: Final = 0.05

Key = tuple[UUID, int]


class ReplicaFetcher:
    """Copies the partitions that one broker leads."""

    def __init__(
        self,
        leader: int,
        broker: BrokerState,
        config: DynamicConfig,
        image: Image,
        fetched_data: FetchedData,
        security: LinkSecurity,
        throttle: ReplicationThrottle,
    ) -> None:
        self._leader = leader
        self._throttle = throttle
        self._security = security
        self._broker = broker
        self._config = config
        self._image = image
        self._fetched_data = fetched_data
        self._partitions: dict[Key, Partition] = {}
        self._changed: dict[Key, None] = {}
        self._forgotten: dict[Key, None] = {}
        self._asked: dict[Key, FollowerFetch] = {}
        self._resting: set[Key] = set()
        self._session = (0, INITIAL_EPOCH)
        self._session_of = NO_EPOCH
        """The broker epoch in which the session's partitions were named."""
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._link: Link | None = None
        self._registered: BrokerImage | None = None
        self._failing = ""

    def add(self, partition: Partition) -> None:
        """Copy this partition, too."""
        key = (partition.topic_id, partition.index)
        self._partitions[key] = partition
        self._resting.discard(key)
        self._ask_about(key)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def remove(self, partition: Partition) -> None:
        """Stop copying this partition."""
        key = (partition.topic_id, partition.index)
        if self._partitions.get(key) is partition:
            del self._partitions[key]
            self._resting.discard(key)
            self._forget(key)

    def brokers_changed(self) -> None:
        """The leader's broker may have gone, or be found elsewhere."""
        registered = self._image.brokers.get(self._leader)
        if self._link is not None and (
            registered is None or not _is_the_same(registered, self._registered)
        ):
            self._link.close()
        self._news.set()

    async def stop(self) -> None:
        """Copy nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # The connection -----------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._fetch_from_leader()
            except LinkError as problem:
                if str(problem) != self._failing:  # logged once
                    self._failing = str(problem)
                    log.warning(
                        "leader unreachable; retrying", leader=self._leader, reason=self._failing
                    )
            except Exception:
                log.exception("fetcher failed; retrying", leader=self._leader)
            await self._wait_for_news(self._back_off())

    async def _fetch_from_leader(self) -> None:
        registered = self._image.brokers.get(self._leader)
        where = (
            None
            if registered is None
            else registered.endpoint(self._config.current.inter_broker.name)
        )
        if registered is None or where is None or not self._partitions:
            await self._wait_for_news(None)
            return
        timeout = self._config.current.replica_socket_timeout_ms / 1000
        self._registered = registered
        self._link = await Link.open(where, timeout, self._security)
        self._session = (0, INITIAL_EPOCH)
        try:
            while self._partitions:
                if not self._has_something_to_ask():
                    await self._wait_for_news(self._back_off())
                    continue
                request = self._request()
                data, at = await self._link.ask_for_bytes(request, VERSION, timeout)
                self._failing = ""
                await self._take(request, _read(data, at))
        finally:
            self._link.close()
            self._link = None

    async def _wait_for_news(self, seconds: float | None) -> None:
        self._news.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    def _back_off(self) -> float:
        return max(self._config.current.replica_fetch_backoff_ms / 1000, SHORTEST_TRY_SECONDS)

    # Asking -------------------------------------------------------------------------------

    def _has_something_to_ask(self) -> bool:
        if self._broker.epoch == NO_EPOCH:
            return False
        begins = self._session[1] == INITIAL_EPOCH or self._session_of != self._broker.epoch
        return not begins or any(map(self._can_be_asked_for, self._partitions))

    def _can_be_asked_for(self, key: Key) -> bool:
        return key not in self._resting and not self._partitions[key].log.offline

    def _ask_about(self, key: Key) -> None:
        self._changed[key] = None
        self._forgotten.pop(key, None)
        self._news.set()

    def _forget(self, key: Key) -> None:
        self._changed.pop(key, None)
        self._asked.pop(key, None)
        self._forgotten[key] = None

    def _request(self) -> FetchRequest:
        config = self._config.current
        if self._session_of != self._broker.epoch:
            self._session_of = self._broker.epoch
            self._session = (0, INITIAL_EPOCH)
        session_id, session_epoch = self._session
        if session_epoch == INITIAL_EPOCH:
            wanted = dict.fromkeys(filter(self._can_be_asked_for, self._partitions))
            self._changed = {}
            self._asked.clear()
            forgotten: dict[Key, None] = {}
        else:
            wanted, self._changed = self._changed, {}
            forgotten = self._forgotten
        self._forgotten = {}
        return FetchRequest(
            cluster_id=self._image.cluster_id or "",
            replica_state=ReplicaState(
                replica_id=self._broker.id, replica_epoch=self._broker.epoch
            ),
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=self._topics(wanted),
            forgotten_topics_data=_by_topic(forgotten),
        )

    def _topics(self, wanted: dict[Key, None]) -> list[FetchTopic]:
        most = self._config.current.replica_fetch_max_bytes
        topics: dict[UUID, FetchTopic] = {}
        for key in wanted:
            partition = self._partitions.get(key)
            following = None if partition is None else partition.following
            if partition is None or following is None or partition.log.offline:
                continue
            its_log = partition.log
            fetch = following.fetch(its_log.end_offset, its_log.epochs, its_log.start_offset)
            self._asked[key] = fetch
            topic = topics.setdefault(key[0], FetchTopic(topic_id=key[0]))
            topic.partitions.append(
                FetchPartition(
                    partition=key[1],
                    current_leader_epoch=fetch.leader_epoch,
                    fetch_offset=fetch.offset,
                    last_fetched_epoch=fetch.last_fetched_epoch,
                    log_start_offset=fetch.log_start,
                    partition_max_bytes=most,
                )
            )
        return list(topics.values())

    # Taking -------------------------------------------------------------------------------

    async def _take(self, request: FetchRequest, answer: FetchAnswer) -> None:
        if answer.error_code:
            if request.session_epoch == INITIAL_EPOCH:
                raise LinkError(ErrorCode(answer.error_code).name)
            self._session = (0, INITIAL_EPOCH)  # the leader no longer has our session
            return
        if answer.session_id == 0:
            self._session = (0, INITIAL_EPOCH)
        elif request.session_epoch == INITIAL_EPOCH:
            self._session = (answer.session_id, INITIAL_EPOCH + 1)
        else:
            self._session = (answer.session_id, _next_epoch(request.session_epoch))
        taken = 0
        for topic, partitions in answer.topics:
            assert isinstance(topic, bytes)  # the version has topic ids
            topic_id = UUID(bytes=topic)
            for data in partitions:
                await self._take_one((topic_id, data.partition), data)
                taken += len(data.records)
                if taken > BYTES_IN_ONE_TURN:
                    taken = 0
                    await asyncio.sleep(0)

    async def _take_one(self, key: Key, data: PartitionAnswer) -> None:
        partition = self._partitions.get(key)
        fetch = self._asked.get(key)
        if partition is None or fetch is None:
            return
        if not await self._fetched_data.take(partition, fetch, data):
            self._rest(key, self._back_off())
        elif wait := self._held_back(partition, len(data.records)):
            self._rest(key, wait)
        elif (
            partition.log.end_offset != fetch.offset
            or partition.log.start_offset != fetch.log_start
            or data.diverging is not None
            or data.error_code
        ):
            self._changed[key] = None

    def _held_back(self, partition: Partition, taken: int) -> float:
        """For how many seconds a partition is not asked for, because of what was taken."""
        if not self._throttle.is_throttled((partition.topic, partition.index), self._broker.id):
            return 0.0
        self._throttle.used(taken)
        return self._throttle.wait()

    def _rest(self, key: Key, seconds: float) -> None:
        self._forget(key)
        self._resting.add(key)
        asyncio.get_running_loop().call_later(seconds, self._ask_again, key)

    def _ask_again(self, key: Key) -> None:
        self._resting.discard(key)
        if key in self._partitions:
            self._ask_about(key)


def _read(data: memoryview, at: int) -> FetchAnswer:
    try:
        return read_answer(data, at, VERSION)
    except DecodeError as problem:
        raise LinkError(str(problem)) from None


def _is_the_same(registered: BrokerImage, before: BrokerImage | None) -> bool:
    return before is not None and (registered.epoch, registered.endpoints) == (
        before.epoch,
        before.endpoints,
    )


def _next_epoch(epoch: int) -> int:
    return 1 if epoch == 2**31 - 1 else epoch + 1


def _by_topic(keys: dict[Key, None]) -> list[ForgottenTopic]:
    topics: dict[UUID, ForgottenTopic] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(index)
    return list(topics.values())
