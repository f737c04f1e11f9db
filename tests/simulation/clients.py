"""Producers and readers of a simulation. They reach every broker: also one that is cut off."""

from ottla.metadata.image import PartitionKey
from ottla.wire.errors import ErrorCode

from .broker import SimulatedBroker
from .world import Connection, Endpoint, World

TIMEOUT = 250


class Client(Endpoint):
    """Someone who sends to the broker that seemed to lead."""

    def __init__(
        self, world: World, name: str, key: PartitionKey, brokers: dict[int, SimulatedBroker]
    ) -> None:
        super().__init__(world, name)
        self.key = key
        self.brokers = brokers
        self.broker: SimulatedBroker | None = None
        self.connection: Connection | None = None
        self.number = 0

    def choose(self) -> tuple[SimulatedBroker, Connection]:
        """The broker that was good last time, or whom someone names as leader."""
        if self.broker is None or self.connection is None or self.connection.broken:
            chance = self.world.chance
            asked = self.brokers[chance.choice(list(self.brokers))]
            state = asked.image.partitions.get(self.key)
            named = asked if state is None else self.brokers.get(state.leader, asked)
            self.broker = named if chance.random() < 0.9 else asked
            self.connection = Connection(self.world, self, self.broker)
        return self.broker, self.connection

    def give_up(self, number: int) -> bool:
        """Whether that request is still unanswered; then another broker is tried."""
        if number != self.number:
            return False
        self.number += 1
        self.broker = None
        return True


class Producer(Client):
    """Sends one value after the other, each until it is acknowledged."""

    def __init__(
        self,
        world: World,
        name: str,
        key: PartitionKey,
        brokers: dict[int, SimulatedBroker],
        acks: int,
    ) -> None:
        super().__init__(world, name, key, brokers)
        self.acks = acks
        self.sequence = 0
        self.ends = False
        self.done = False

    def send(self) -> None:
        """Send the next value, or the last one again."""
        if self.ends and (self.done or self.acks == 1):
            self.done = True
            return
        broker, connection = self.choose()
        self.number += 1
        number = self.number

        def answer(error: ErrorCode, offset: int) -> None:
            connection.send(self, self.answered, number, error)

        value = f"{self.name}:{self.sequence}"
        args = (broker.produce, self.key, value, self.acks, answer)
        connection.send(broker, *args)
        self.timer(TIMEOUT, self.timed_out, number)

    def timed_out(self, number: int) -> None:
        """Nobody has answered."""
        if self.give_up(number):
            self.send()

    def answered(self, number: int, error: ErrorCode) -> None:
        """The broker has answered."""
        if number != self.number:
            return
        if error == ErrorCode.NONE:
            self.number += 1
            self.sequence += 1
            self.done = self.ends
            self.timer(self.world.chance.randrange(5, 40), self.send)
        elif self.give_up(number):
            self.timer(15, self.send)


class Reader(Client):
    """Reads from the beginning on, from any broker that answers, and asks where the log ends."""

    def __init__(
        self, world: World, name: str, key: PartitionKey, brokers: dict[int, SimulatedBroker]
    ) -> None:
        super().__init__(world, name, key, brokers)
        self.offset = 0

    def send(self) -> None:
        """Read on."""
        self.timer(self.world.chance.randrange(20, 60), self.send)
        chance = self.world.chance
        if chance.random() < 0.3:
            self.broker = None
        broker, connection = self.choose()
        if chance.random() < 0.3:
            self.broker = broker = self.brokers[chance.choice(list(self.brokers))]
            self.connection = connection = Connection(self.world, self, broker)
        self.number += 1
        number = self.number

        def answer(error: ErrorCode, offset: int) -> None:
            connection.send(self, self.answered, number, offset)

        connection.send(broker, broker.read, self.key, self.offset, answer)
        if chance.random() < 0.5:
            connection.send(broker, broker.latest, self.key)

    def answered(self, number: int, offset: int) -> None:
        """The broker has answered."""
        if number == self.number:
            self.offset = offset
