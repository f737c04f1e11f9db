"""What all coordinators of this broker share: a runner for each partition of their topic it leads.

Rules kept here:
1. An id (a group's or a transaction's) belongs to the partition that Kafka's hash of it names, and
   its coordinator is that partition's leader.
2. The internal topic is made when it is first asked for, with Kafka's settings for it.
3. A caller that asks all of them gets nothing of a partition that has moved away meanwhile: its
   next coordinator has the answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.broker.coordinators.shard_runner import ShardRunner
from ottla.broker.replicas.partition import Partition
from ottla.broker.scheduling.waiting import settled
from ottla.coordinator.shard import Result
from ottla.metadata.topics import NewTopic
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.coordinators.context import CoordinatorContext

T = TypeVar("T", bound=ShardRunner[Any])
R = TypeVar("R")
MOST_REPLICAS = 3
SMALLEST_SEGMENT = 1 << 20


HASHES_REMEMBERED = 10_000
LONGEST_REMEMBERED = 255
"""An id can have 32 KB: ten thousand of those would be a lot of memory."""


def java_hash(text: str) -> int:
    """Java's String.hashCode, made positive as Kafka does it."""
    return _hash(text) if len(text) > LONGEST_REMEMBERED else _remembered_hash(text)


def _hash(text: str) -> int:
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    if value >= 1 << 31:
        value = (1 << 32) - value
    return 0 if value == 1 << 31 else value


_remembered_hash = lru_cache(maxsize=HASHES_REMEMBERED)(_hash)


def segment_bytes(wanted: int) -> str:
    """`segment.bytes` of an internal topic: a topic may not have less, the broker's setting may."""
    return str(max(wanted, SMALLEST_SEGMENT))


class Coordinators(ABC, Generic[T]):
    """All runners of one internal topic on this broker."""

    topic: str

    def __init__(self, context: CoordinatorContext) -> None:
        self.context = context
        self._runners: dict[int, T] = {}

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._runners.values()))

    # What a kind of coordinator says about itself ------------------------------------------

    @abstractmethod
    def partition_count(self) -> int:
        """The number of partitions that the topic is made with."""

    @abstractmethod
    def replication_factor(self) -> int:
        """The replicas that the topic is made with, where there are this many brokers."""

    @abstractmethod
    def settings(self) -> dict[str, str]:
        """The settings that the topic is made with."""

    @abstractmethod
    def make_runner(self, partition: Partition) -> T:
        """A runner for a partition."""

    # Partitions ---------------------------------------------------------------------------

    def opened(self, partition: Partition) -> None:
        """This broker leads a partition of the topic: load its state."""
        runner = self.make_runner(partition)
        self._runners[partition.index] = runner
        runner.load()

    def closed(self, partition: Partition) -> None:
        """This broker no longer leads a partition."""
        runner = self._runners.pop(partition.index, None)
        if runner is not None:
            runner.end()

    def stop(self) -> None:
        """Stop all of them."""
        for runner in self:
            runner.end()
        self._runners.clear()

    def new_topic(self) -> NewTopic:
        """The internal topic as it is created, at the first request for it."""
        replicas = min(self.replication_factor(), len(self.context.image.brokers))
        return NewTopic(self.topic, self.partition_count(), replicas, configs=self.settings())

    async def ensure_topic(self) -> None:
        """Make the internal topic if it is not there; it may take longer than this waits."""
        if self.topic not in self.context.image.topics:
            await self.context.topic_creation.create([self.topic])

    def partition_of(self, key: str) -> int:
        """The partition that an id belongs to; raises KafkaError before the topic exists."""
        topic = self.context.image.topics.get(self.topic)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return java_hash(key) % len(topic.assignment)

    def runner_of(self, key: str) -> T:
        """The runner that an id belongs to; raises KafkaError where it is not here."""
        topic = self.context.image.topics.get(self.topic)
        if topic is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        runner = self._runners.get(java_hash(key) % len(topic.assignment))
        if runner is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return runner

    async def ask_all(self, decide: Callable[[Any, int], Result[R]]) -> list[R]:
        """Let every shard of this broker decide; raises an error that clients repeat."""
        answers: list[R] = []
        for runner in self:
            try:
                reply = runner.ask(decide)
                answers.append(await settled(reply))
            except KafkaError as problem:
                if problem.code is not ErrorCode.NOT_COORDINATOR:
                    raise
                if self._runners.get(runner.partition.index) is runner:
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from problem
        return answers
