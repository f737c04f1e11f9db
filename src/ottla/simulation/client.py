"""What all simulated clients share: who leads what, and asking a broker.

Rules kept here:
1. A client asks over the links that brokers use among themselves, one request of a link at a time.
2. What it knows of the cluster it asked a broker; what failed makes it ask again.
3. No answer is no answer: what was asked may have been done or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from ottla.broker.replication.link import Link, LinkError
from ottla.metadata.documents import BrokerEndpoint
from ottla.simulation.cluster import Cluster
from ottla.simulation.world import World
from ottla.wire import codec
from ottla.wire.errors import ErrorCode
from ottla.wire.fields import DecodeError
from ottla.wire.message import Message
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

M = TypeVar("M", bound=Message)

PATIENCE_SECONDS: Final = 3.0
PAUSE_SECONDS: Final = 0.1


class NoAnswer(Exception):  # noqa: N818 it names what happened
    """The broker was not reached, or did not answer."""


class TopicPartition(NamedTuple):
    """A partition of one topic, of which there may be others of the same name."""

    topic: str
    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}/{self.topic_id.hex[:6]}"


class SimulatedClient:
    """One client's links and knowledge."""

    def __init__(self, world: World, cluster: Cluster, chance: Random) -> None:
        self.world = world
        self.cluster = cluster
        self.chance = chance
        self.topics: dict[str, UUID] = {}
        self.partitions: dict[str, int] = {}
        self.leaders: dict[tuple[str, int], tuple[int, int]] = {}
        """The leader and its epoch."""
        self._links: dict[int, Link] = {}
        self._busy: dict[int, asyncio.Lock] = {}

    async def ask(
        self, broker: int, request: Message, answer: type[M], version: int | None = None
    ) -> M:
        """Ask one broker; raises NoAnswer."""
        version = answer.VERSIONS[1] if version is None else version
        body, at = await self.ask_for_bytes(broker, request, version)
        try:
            return codec.decode(answer, version, body, at)
        except DecodeError as problem:
            self.world.fail(f"a malformed answer to {type(request).__name__}: {problem}")
            raise NoAnswer from None

    async def ask_for_bytes(
        self, broker: int, request: Message, version: int
    ) -> tuple[memoryview, int]:
        """Ask one broker; the answer as it came, and where it begins."""
        async with self._busy.setdefault(broker, asyncio.Lock()):
            try:
                link = self._links.get(broker)
                if link is None or not link.is_open:
                    where = BrokerEndpoint("PLAINTEXT", "127.0.0.1", self.cluster.port_of(broker))
                    link = self._links[broker] = await Link.open(where, PATIENCE_SECONDS)
                body, at = await link.ask_for_bytes(request, version, PATIENCE_SECONDS)
            except LinkError:
                self._links.pop(broker, None)
                raise NoAnswer from None
            return memoryview(bytes(body)), at

    def any_broker(self) -> int:
        """One of them, be it up or not."""
        return self.chance.choice(list(self.cluster.hosts))

    async def pause(self) -> None:
        """Wait a moment before the next attempt."""
        await asyncio.sleep(self.chance.uniform(PAUSE_SECONDS / 4, PAUSE_SECONDS * 2))

    async def learn(self, names: Sequence[str]) -> None:
        """Ask a broker who leads what; raises NoAnswer."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
        )
        answer = await self.ask(self.any_broker(), request, MetadataResponse)
        for topic in answer.topics:
            name = topic.name or ""
            if topic.error_code == ErrorCode.NONE:
                self.topics[name] = topic.topic_id
                self.partitions[name] = len(topic.partitions)
                for each in topic.partitions:
                    self.leaders[name, each.partition_index] = each.leader_id, each.leader_epoch
            elif topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self.topics.pop(name, None)

    async def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition; raises NoAnswer where none is known."""
        if self.leaders.get((topic, partition), (-1, -1))[0] < 0:
            await self.learn([topic])
        broker, _ = self.leaders.get((topic, partition), (-1, -1))
        if broker < 0:
            raise NoAnswer
        return broker

    def forget_leader(self, topic: str, partition: int) -> None:
        """It does not lead any more."""
        self.leaders.pop((topic, partition), None)

    async def coordinator(self, key: str, kind: int) -> int:
        """The broker that coordinates a group (0) or a transactional id (1); raises NoAnswer."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        answer = await self.ask(self.any_broker(), request, FindCoordinatorResponse, 4)
        found = answer.coordinators[0]
        if found.error_code:
            raise NoAnswer
        return found.node_id
