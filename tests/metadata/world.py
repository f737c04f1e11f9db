"""A cluster's documents for tests of decisions: brokers come and go, operations are committed."""

from collections.abc import Sequence
from uuid import UUID

from ottla.metadata.documents import BrokerRegistration, Storage, broker_key, encode
from ottla.metadata.image import Delta, Image, PartitionImage
from ottla.metadata.store import Create, Delete, Op, Put
from ottla.metadata.topics import NewTopic, create_topic

from .model import Model


class Cluster:
    """What the store has, and the image of it."""

    def __init__(self, brokers: Sequence[int] = (1, 2, 3)) -> None:
        self.model = Model()
        self.image = Image()
        self.delta = Delta()
        self.created = 0
        for broker in brokers:
            self.up(broker)

    def commit(self, ops: Sequence[Op]) -> None:
        self.delta = self.image.apply(self.model.commit(ops))

    def up(self, broker: int, rack: str | None = None, *, storage: Storage | None = None) -> int:
        """Register a broker; its epoch."""
        document = BrokerRegistration(broker, [], rack, storage=storage)
        self.commit([Create(broker_key(broker), encode(document))])
        return self.image.brokers[broker].epoch

    def down(self, *brokers: int) -> None:
        self.commit([Delete(broker_key(broker)) for broker in brokers])

    def bounce(self, broker: int) -> int:
        """A broker restarts: its registration has a new epoch."""
        self.commit([Delete(broker_key(broker)), Create(broker_key(broker), _value(broker))])
        return self.image.brokers[broker].epoch

    def shut_down(self, broker: int) -> None:
        """A broker says that it is about to stop."""
        value = encode(BrokerRegistration(broker, [], shutting_down=True))
        self.commit([Put(broker_key(broker), value)])

    def create(self, name: str, *assignment: Sequence[int]) -> None:
        """Make a topic with these replicas."""
        self.created += 1
        new = NewTopic(name, assignment=dict(enumerate(assignment)))
        _, ops = create_topic(
            self.image,
            new,
            topic_id=UUID(int=self.created),
            start=0,
            default_partitions=1,
            default_replication_factor=1,
        )
        self.commit(ops)

    def partition(self, name: str = "t", index: int = 0) -> PartitionImage:
        return self.image.partitions[name, index]

    def epochs(self, *brokers: int) -> list[int]:
        """The epochs that brokers have now."""
        return [self.image.brokers[broker].epoch for broker in brokers]


def _value(broker: int) -> bytes:
    return encode(BrokerRegistration(broker, []))
