"""Members of a consumer group (KIP-848): they take partitions, read them, and commit.

Rules kept here:
1. A member reads only what it was assigned, from the committed offset, and says what it still owns.
2. Before a partition is given up what was read of it is committed. Without an answer it is given up
   all the same: others read it again.
3. A member that was fenced or forgotten owns nothing and joins again.
"""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import UUID

from ottla.simulation.checker import Checker
from ottla.simulation.client import NoAnswer, SimulatedClient, TopicPartition
from ottla.simulation.consumers import Reader
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

GROUP: Final = 0
"""The kind of coordinator."""
HEARTBEAT_SECONDS: Final = 0.5
COMMIT_SECONDS: Final = 0.7
FENCED: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.STALE_MEMBER_EPOCH,
}
AGAIN: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.KAFKA_STORAGE_ERROR,
}


class Member:
    """One member, which joins, reads and commits until it is stopped."""

    def __init__(
        self, client: SimulatedClient, checker: Checker, name: str, group: str, topics: list[str]
    ) -> None:
        self._client = client
        self._checker = checker
        self._group = group
        self._topics = topics
        self.name = name
        self._member_id = str(UUID(int=client.chance.getrandbits(128), version=4))
        self._epoch = 0
        self._coordinator = -1
        self._owned: dict[TopicPartition, Reader] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Heartbeats and commits."""
        commit_at = 0.0
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self._beat()
                if loop.time() >= commit_at:
                    await self._commit(list(self._owned))
                    commit_at = loop.time() + COMMIT_SECONDS
            except NoAnswer:
                self._coordinator = -1
            await asyncio.sleep(HEARTBEAT_SECONDS * self._client.chance.uniform(0.5, 1.5))

    async def _find(self) -> int:
        if self._coordinator < 0:
            self._coordinator = await self._client.coordinator(self._group, GROUP)
        return self._coordinator

    async def _beat(self) -> None:
        by_topic: dict[UUID, list[int]] = {}
        for where in self._owned:
            by_topic.setdefault(where.topic_id, []).append(where.partition)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=5000,
            subscribed_topic_names=self._topics,
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in by_topic.items()
            ],
        )
        answer = await self._client.ask(await self._find(), request, ConsumerGroupHeartbeatResponse)
        code = ErrorCode(answer.error_code)
        if code in FENCED:
            self._give_up(list(self._owned))
            self._epoch = 0
        elif code in AGAIN:
            self._coordinator = -1
        elif code != ErrorCode.NONE:
            self._client.world.fail(f"{self.name}: a heartbeat was refused with {code.name}")
        else:
            self._epoch = answer.member_epoch
            if answer.assignment is not None:
                await self._take(
                    [
                        (topic.topic_id, partition)
                        for topic in answer.assignment.topic_partitions
                        for partition in topic.partitions
                    ]
                )

    async def _take(self, assigned: list[tuple[UUID, int]]) -> None:
        """Own exactly these."""
        await self._client.learn(self._topics)
        names = {topic_id: name for name, topic_id in self._client.topics.items()}
        wanted = [
            TopicPartition(names[topic_id], topic_id, partition)
            for topic_id, partition in assigned
            if topic_id in names
        ]
        revoked = [where for where in self._owned if where not in wanted]
        try:
            await self._commit(revoked)
        finally:
            self._give_up(revoked)
        new = [where for where in wanted if where not in self._owned]
        if new:
            await self._begin(new)

    async def _begin(self, new: list[TopicPartition]) -> None:
        offsets = await self._fetch_offsets(new)
        for where, offset in offsets.items():
            reader = Reader(
                self._client,
                self._checker,
                f"{self.name}@{self._epoch}",
                where.topic,
                where.partition,
                committed=False,
            )
            reader.where, reader.position = where, max(offset, 0)
            self._committed[where] = offset
            self._owned[where] = reader
            self._tasks[where] = asyncio.get_running_loop().create_task(reader.run())

    async def _fetch_offsets(self, new: list[TopicPartition]) -> dict[TopicPartition, int]:
        topics = [
            OffsetFetchRequestTopics(topic_id=where.topic_id, partition_indexes=[where.partition])
            for where in new
        ]
        group = OffsetFetchRequestGroup(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self._epoch,
            topics=topics,
        )
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        least = {where: self._checker.committed_offset(self._group, where) for where in new}
        answer = await self._client.ask(await self._find(), request, OffsetFetchResponse)
        found = answer.groups[0]
        if found.error_code:
            self._coordinator = -1
            return {}
        offsets: dict[TopicPartition, int] = {}
        for where, topic in zip(new, found.topics, strict=True):
            data = topic.partitions[0]
            if not data.error_code:
                offsets[where] = data.committed_offset
                self._checker.offset_fetched(
                    self._group, where, self.name, data.committed_offset, least[where]
                )
        return offsets

    async def _commit(self, some: list[TopicPartition]) -> None:
        """Commit what was read."""
        positions = {
            where: self._owned[where].position
            for where in some
            if self._owned[where].where == where
            and self._owned[where].position > self._committed[where]
        }
        if not positions:
            return
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._epoch,
            member_id=self._member_id,
            topics=[
                OffsetCommitRequestTopic(
                    topic_id=where.topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=where.partition, committed_offset=position
                        )
                    ],
                )
                for where, position in positions.items()
            ],
        )
        answer = await self._client.ask(await self._find(), request, OffsetCommitResponse)
        for (where, position), topic in zip(positions.items(), answer.topics, strict=True):
            code = ErrorCode(topic.partitions[0].error_code)
            if code == ErrorCode.NONE:
                self._committed[where] = position
                self._checker.offset_committed(self._group, where, position)
            elif code in AGAIN:
                self._coordinator = -1
            elif code not in FENCED:
                self._client.world.fail(f"{self.name}: a commit was refused with {code.name}")

    def _give_up(self, some: list[TopicPartition]) -> None:
        for where in some:
            self._owned.pop(where).ends = True
            self._tasks.pop(where).cancel()
