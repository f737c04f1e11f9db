"""A client of a cluster: which brokers there are, who leads what, and trying again.

Rules kept here:
1. Metadata is asked for when it is needed and kept until an error says that it is old. A partition
   is called missing, and a topic recreated, only by what the cluster says now.
2. A retriable error is retried with growing pauses until the deadline; then it is raised. When no
   bootstrap server has ever answered, that is raised at once: waiting rarely mends an address.
3. There is one connection to each broker, made when it is needed, made again when it was lost.
4. A client belongs to one thread, and starts none. It is not pickled; its settings are.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from time import monotonic, sleep
from types import TracebackType
from typing import NamedTuple, Self, TypeVar
from uuid import UUID

from ottla.client.connection import BrokerConnection
from ottla.client.errors import ConnectionFailed, NoBroker, check, error
from ottla.client.settings import Address, ClientSettings, addresses
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import Message
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

R = TypeVar("R", bound=Message)
T = TypeVar("T")

_CHANCE = Random()  # of its own: a program that uses a client may seed the other
UNKNOWN_TOPIC_WAIT = 0.5
"""A topic that was created a moment ago may not be known everywhere yet."""


NO_LEADER = -1
NO_TOPIC_ID = UUID(int=0)
"""What a broker that is too old for topic ids says."""


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class Topic(NamedTuple):
    """What the cluster says about a topic."""

    name: str
    id: UUID
    leaders: Mapping[int, int]
    """Broker id by partition; NO_LEADER where there is none just now."""
    leader_epochs: Mapping[int, int]


class Client:
    """Finds brokers and leaders, and sends requests to them. Close it, or use it with `with`."""

    def __init__(self, settings: ClientSettings | str) -> None:
        """Take settings, or just the bootstrap servers. Nothing is connected yet."""
        if isinstance(settings, str):
            settings = ClientSettings(bootstrap_servers=settings)
        self.settings = settings
        self._bootstrap = addresses(settings.bootstrap_servers)
        self._brokers: dict[int, Address] = {}
        self._connections: dict[Address, BrokerConnection] = {}
        self._topics: dict[str, Topic] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def call(
        self,
        request: Message,
        kind: type[R],
        node_id: int | None = None,
        *,
        newest: int | None = None,
    ) -> R:
        """One request and its reply, from a given broker or from any; not retried here.

        `newest` is the highest version that the caller can use.
        """
        return self.connection(node_id).call(request, kind, newest=newest)

    def retry(self, attempt: Callable[[], T]) -> T:
        """Do something until it works, its error is final, or the deadline has passed."""
        deadline = monotonic() + self.settings.deadline
        pause = self.settings.backoff
        while True:
            try:
                return attempt()
            except KafkaError as problem:
                if not problem.retriable or monotonic() + pause > deadline:
                    raise
            pause = self.pause(pause)

    def pause(self, pause: float) -> float:
        """Wait for about so long, and return how long to wait the next time."""
        sleep(pause * _CHANCE.uniform(0.8, 1.2))
        return min(2 * pause, self.settings.longest_backoff)

    def connection(self, node_id: int | None = None) -> BrokerConnection:
        """The shared connection to a broker, or to any broker that answers."""
        if node_id is None:
            return self._any_connection()
        address = self.address(node_id)
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            connection = self._connections[address] = self.connect(node_id)
        return connection

    def connect(self, node_id: int) -> BrokerConnection:
        """A new connection of the caller's own, for requests that would hold up others."""
        return BrokerConnection(self.address(node_id), self.settings)

    def address(self, node_id: int) -> Address:
        """Where a broker listens; one that was removed is a retriable error, like one that is
        down."""
        if node_id not in self._brokers:
            self.metadata([])
        address = self._brokers.get(node_id)
        if address is None:
            for topic in list(self._topics.values()):
                if node_id in topic.leaders.values():
                    self.forget(topic.name)  # another broker leads by now, or will
            raise ConnectionFailed(f"broker {node_id} is not available")
        return address

    def topic(self, name: str, *, create: bool = False) -> Topic:
        """A topic's partitions and leaders, from memory where it was asked for before.

        With `create`, a broker that creates topics by itself may do so now.
        """
        return self._topics.get(name) or self._find_topic(name, create)

    def topic_with_id(self, name: str, topic_id: UUID) -> Topic:
        """A topic that must have this id; TopicRecreated where another one has its name now.

        A broker that knows no topic ids is believed by the name.
        """
        found = self.topic(name)
        if found.id not in (topic_id, NO_TOPIC_ID):
            found = self._ask_again(name, lambda now: now.id == topic_id)
        if found.id not in (topic_id, NO_TOPIC_ID):
            raise TopicRecreated(name, topic_id, found.id)
        return found

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition; LEADER_NOT_AVAILABLE where there is none just now."""
        found = self.topic(topic)
        if partition not in found.leaders:
            # Partitions may have been added since the topic was asked for.
            found = self._ask_again(topic, lambda now: partition in now.leaders)
        if partition not in found.leaders:
            self.forget(topic)
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {topic} has no partition {partition}: it has 0 to {len(found.leaders) - 1}",
            )
        leader = found.leaders[partition]
        if leader == NO_LEADER:
            self.forget(topic)
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"partition {partition} of topic {topic} has no leader",
            )
        return leader

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Partitions by the broker that leads them; each must have a leader."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            by_leader.setdefault(self.leader(*partition), []).append(partition)
        return by_leader

    def led(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of the partitions that exist and have a leader, as the cluster says now."""
        wanted = list(partitions)
        names = sorted({partition.topic for partition in wanted})
        if not names:
            return []
        for name in names:
            self.forget(name)
        self.retry(lambda: self.metadata(names))
        found = {name: self._topics[name].leaders for name in names if name in self._topics}
        return [
            partition
            for partition in wanted
            if found.get(partition.topic, {}).get(partition.partition, NO_LEADER) != NO_LEADER
        ]

    def forget(self, topic: str) -> None:
        """Ask for a topic's metadata again when it is next needed."""
        self._topics.pop(topic, None)

    def metadata(self, topics: Sequence[str] | None, *, create: bool = False) -> MetadataResponse:
        """Ask for some topics, or for all; the reply is remembered."""
        request = MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=create,
        )
        reply = self._any_connection().call(request, MetadataResponse)
        check(reply.error_code)
        if reply.brokers:
            self._brokers = {item.node_id: Address(item.host, item.port) for item in reply.brokers}
        for item in reply.topics:
            if item.error_code == ErrorCode.NONE and item.name is not None:
                self._topics[item.name] = _topic(item, item.name)
        return reply

    def _ask_again(self, name: str, fits: Callable[[Topic], bool]) -> Topic:
        """A topic as the cluster knows it now. Brokers apply a change one after another, so a
        reply that does not fit is asked for again for a moment.
        """
        give_up = monotonic() + UNKNOWN_TOPIC_WAIT
        while True:
            self.forget(name)
            found = self.topic(name)
            if fits(found) or monotonic() > give_up:
                return found
            self.pause(self.settings.backoff)

    def _find_topic(self, name: str, create: bool) -> Topic:
        give_up = monotonic() + UNKNOWN_TOPIC_WAIT

        def attempt() -> Topic:
            while True:
                (found,) = self.metadata([name], create=create).topics
                if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not create:
                    if monotonic() > give_up:
                        raise UnknownTopic(name)
                    self.pause(self.settings.backoff)
                    continue
                if found.error_code == ErrorCode.NONE:
                    return self._topics[name]
                if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise KafkaError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        f"topic {name} does not exist, and auto topic creation is disabled",
                    )
                raise error(found.error_code, None, f"topic {name}")

        return self.retry(attempt)

    def _any_connection(self) -> BrokerConnection:
        for connection in self._connections.values():
            if not connection.closed:
                return connection
        problems: dict[Address, str] = {}
        for address in dict.fromkeys([*self._brokers.values(), *self._bootstrap]):
            try:
                connection = BrokerConnection(address, self.settings)
            except ConnectionFailed as problem:
                problems[address] = str(problem)
                continue
            self._connections[address] = connection
            return connection
        text = "; ".join(problems.values())
        raise ConnectionFailed(text) if self._brokers else NoBroker(text)


class UnknownTopic(KafkaError):  # noqa: N818 (it names what happened)
    """There is no such topic. Unlike Kafka's code for it, not worth a retry."""

    def __init__(self, name: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")

    @property
    def retriable(self) -> bool:
        """False: it was asked for long enough."""
        return False


class TopicRecreated(KafkaError):  # noqa: N818 (it names what happened)
    """The topic was deleted, and another one was created with its name. Not worth a retry."""

    def __init__(self, name: str, was: UUID, now: UUID) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_ID,
            f"topic {name} was deleted and created again: its id was {was} and is now {now}",
        )

    @property
    def retriable(self) -> bool:
        """False: the old topic does not come back."""
        return False


def _topic(found: MetadataResponseTopic, name: str) -> Topic:
    return Topic(
        name,
        found.topic_id,
        {item.partition_index: item.leader_id for item in found.partitions},
        {item.partition_index: item.leader_epoch for item in found.partitions},
    )
