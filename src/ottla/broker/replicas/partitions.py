"""All partitions of this broker, found by topic name or topic id in one step.

Rules kept here:
1. A partition that is not served yet (its log is being recovered) or no longer (its disk
   failed) stays known: asking for it gives the reason, not "unknown".
2. Looking up costs the same whatever the number of topics.
3. `find` finds what this broker leads, for clients; a replica that follows is found by `get` and
   by walking over all.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from ottla.broker.replicas.partition import Partition
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.produce import TopicKey

NOT_HERE = KafkaError(
    ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is being opened; try again in a moment"
)
NOT_LED_HERE = KafkaError(
    ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not led by this broker"
)


class Partitions:
    """The registry of partitions."""

    def __init__(self) -> None:
        self._topics: dict[TopicKey, list[Partition | KafkaError]] = {}
        self._ids: dict[str, bytes] = {}
        self._names: dict[bytes, str] = {}
        self._all: dict[tuple[str, int], Partition] = {}
        self.changes = 0
        """How often a partition was opened, failed to be, or went."""

    def __iter__(self) -> Iterator[Partition]:
        """Every partition that is open now; safe against changes while it is walked."""
        return iter(list(self._all.values()))

    def __len__(self) -> int:
        return len(self._all)

    def find(self, topic: TopicKey, index: int, epoch: int = -1) -> Partition:
        """The partition that is led here, or KafkaError with the reason why there is none.

        As in Kafka, a leader epoch in the request is checked first.
        """
        indexes = self._topics.get(topic)
        if indexes is None:
            if isinstance(topic, bytes):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not 0 <= index < len(indexes):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        found = indexes[index]
        if isinstance(found, KafkaError):
            raise KafkaError(found.code, found.message)
        if not found.leads:
            found.check_leader_epoch(epoch)
            raise KafkaError(NOT_LED_HERE.code, NOT_LED_HERE.message)
        return found

    def replica(self, topic: TopicKey, index: int) -> Partition | None:
        """The partition if it is open here now, led or not, by the name or id of its topic."""
        if isinstance(topic, str):
            return self._all.get((topic, index))
        name = self._names.get(topic)
        return None if name is None else self._all.get((name, index))

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition if it is open here now, led or not."""
        return self._all.get((topic, index))

    def of_topic(self, topic: str) -> list[Partition]:
        """The partitions of a topic that are open now, led or not."""
        indexes = range(len(self._topics.get(topic, ())))
        found = (self._all.get((topic, index)) for index in indexes)
        return [each for each in found if each is not None]

    def count_of(self, topic: str) -> int:
        """How many partitions of a topic are known, open or not."""
        return len(self._topics.get(topic, ()))

    def expect(self, topic: str, topic_id: UUID, count: int) -> None:
        """Know of a topic's partitions before they are open."""
        indexes = self._topics.get(topic)
        if indexes is None:
            indexes = []
            self._topics[topic] = self._topics[topic_id.bytes] = indexes
            self._ids[topic] = topic_id.bytes
            self._names[topic_id.bytes] = topic
        while len(indexes) < count:
            indexes.append(NOT_HERE)

    def put(self, partition: Partition) -> None:
        """A partition is open."""
        self.changes += 1
        self._topics[partition.topic][partition.index] = partition
        self._all[partition.topic, partition.index] = partition

    def remove(self, partition: Partition) -> None:
        """This broker no longer has a replica of the partition."""
        self.changes += 1
        self._topics[partition.topic][partition.index] = NOT_LED_HERE
        del self._all[partition.topic, partition.index]

    def put_failed(self, topic: str, index: int, reason: KafkaError) -> None:
        """A partition could not be opened: requests for it get the reason."""
        self.changes += 1
        self._topics[topic][index] = reason

    def remove_topic(self, topic: str) -> list[Partition]:
        """Forget a topic; returns its partitions, for their end."""
        self.changes += 1
        gone = self.of_topic(topic)
        self._topics.pop(topic, None)
        topic_id = self._ids.pop(topic, None)
        if topic_id is not None:
            self._topics.pop(topic_id, None)
            self._names.pop(topic_id, None)
        for partition in gone:
            del self._all[partition.topic, partition.index]
        return gone

    def sizes(self) -> dict[str, int]:
        """Bytes on disk by topic."""
        sizes: dict[str, int] = {}
        for partition in self._all.values():
            sizes[partition.topic] = sizes.get(partition.topic, 0) + partition.log.size
        return sizes

    def replication(self) -> tuple[int, int, int]:
        """Partitions led here; those with replicas out of sync; those below the least in sync."""
        led = [partition for partition in self._all.values() if partition.leads]
        shared = [each.leadership for each in led if each.leadership is not None]
        return (
            len(led),
            sum(len(each.isr) < len(each.replicas) for each in shared),
            sum(not each.has_enough for each in shared),
        )

    def halted_count(self) -> int:
        """Replicas that do not copy because their leader lacks committed records."""
        return sum(partition.halts > 0 for partition in self._all.values())

    def offline_count(self) -> int:
        """Partitions that cannot be served because of their disk."""
        failed = sum(
            isinstance(each, KafkaError) and each.code == ErrorCode.KAFKA_STORAGE_ERROR
            for topic, indexes in self._topics.items()
            if isinstance(topic, str)
            for each in indexes
        )
        return failed + self.closed_by_disk()

    def closed_by_disk(self) -> int:
        """Partitions that were open and whose disk failed since."""
        return sum(partition.log.offline for partition in self._all.values())
