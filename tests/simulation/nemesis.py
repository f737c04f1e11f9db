"""What goes wrong in a simulation, and when.

Processes die any number at once, for they lose nothing that was acknowledged. A machine that dies
loses what it had not flushed, and a disk everything: so one of them goes only while, in each of
its partitions, another member of the ISR is well, and no other goes until the ISR has forgotten it.
That it is gone is known at once: otherwise the ISR could shrink to it alone. Processes may die
meanwhile, all of them: who comes back without its records must not lead, though it be the first.
"""

from ottla.metadata.controller import change_partition, check_role
from ottla.metadata.elect_leaders import rebalance
from ottla.metadata.elections import NO_LEADER, changed, is_fresh
from ottla.metadata.image import NO_EPOCH, Image, PartitionKey
from ottla.metadata.reassignments import alter_reassignments

from .broker import SimulatedBroker
from .store import SESSION_TIMEOUT, SimulatedStore
from .world import World


class Nemesis:
    """Injects faults into the cluster now and then, until it is stopped."""

    def __init__(
        self,
        world: World,
        store: SimulatedStore,
        brokers: dict[int, SimulatedBroker],
        *,
        lossy: bool,
        moves: bool,
    ) -> None:
        self.world = world
        self.store = store
        self.brokers = brokers
        self.lossy = lossy
        self.moves = moves
        self.ended = False
        self.lost: list[tuple[PartitionKey, int, int]] = []
        """Partitions of which a machine or disk was lost, its broker, and the epoch in the ISR."""

    def act(self) -> None:
        """Do one bad thing, and plan the next."""
        if self.ended:
            return
        chance = self.world.chance
        self.world.after(chance.randrange(20, 500), self.act)
        broker = self.brokers[chance.choice(list(self.brokers))]
        what = chance.random()
        if what < 0.1 and self.moves:
            self._move()
        elif what < 0.15:
            self._balance()
        elif what < 0.2:
            for _ in range(chance.randint(1, 3)):
                self.world.after(chance.randrange(100), self._elect)
        elif what < 0.25:
            self._delete_records(broker)
        elif what < 0.45:
            self._crash(broker)
        elif what < 0.6:
            self._pause(broker)
        elif what < 0.85:
            self._cut(broker)
        elif what < 0.92:
            self.world.say(f"the session of {broker.name} is declared dead")
            self.store.expire_now(broker.name)
        elif broker.running and not broker.paused:
            self.world.say(f"{broker.name} is asked to stop")
            broker.stop()

    def end(self) -> None:
        """Mend everything."""
        self.ended = True
        self.world.say("the faults end")
        self.store.unreliable = False
        self.world.heal_all()
        for broker in self.brokers.values():
            if broker.paused:
                broker.resume()
            if not broker.running:
                self._start(broker)

    def _crash(self, broker: SimulatedBroker) -> None:
        if not broker.running:
            return
        chance = self.world.chance
        lose = self.lossy and chance.random() < 0.7 and self._may_lose(broker)
        if lose:
            for key, partition in self._image().partitions.items():
                self.lost.append((key, broker.number, partition.isr_epoch(broker.number)))
        if lose and chance.random() < 0.5:
            broker.lose_disk()
        else:
            broker.crash(lose)
        if lose or chance.random() < 0.5:
            self.store.end_sessions_of(broker.name)
        if lose and chance.random() < 0.5:
            for other in self.brokers.values():
                self.world.after(chance.randrange(100), self._crash_only, other)
        quickly = chance.random() < 0.5
        self.world.after(chance.randrange(1, 30 if quickly else 1500), self._start, broker)

    def _crash_only(self, broker: SimulatedBroker) -> None:
        """A process dies, and nothing with it."""
        if broker.running and not self.ended:
            broker.crash(lose=False)
            self.store.end_sessions_of(broker.name)
            self.world.after(self.world.chance.randrange(1, 1500), self._start, broker)

    def _start(self, broker: SimulatedBroker) -> None:
        if not broker.running:
            broker.start()

    def _pause(self, broker: SimulatedBroker) -> None:
        if broker.running and not broker.paused:
            self.world.say(f"{broker.name} is paused")
            broker.pause()
            self.world.after(self.world.chance.randrange(50, 1200), self._resume, broker)

    def _resume(self, broker: SimulatedBroker) -> None:
        if broker.paused:
            self.world.say(f"{broker.name} continues")
            broker.resume()

    def _cut(self, broker: SimulatedBroker) -> None:
        chance = self.world.chance
        everyone = ["store", *(other.name for other in self.brokers.values())]
        if chance.random() < 0.1:  # the store has lost its quorum
            pairs = [("store", other) for other in everyone[1:]]
        else:
            some = [other for other in everyone if other != broker.name]
            chance.shuffle(some)
            pairs = [(broker.name, other) for other in some[: chance.randint(1, len(some))]]
        self.world.say(f"cut: {pairs}")
        for one, other in pairs:
            self.world.cut(one, other)
        self.world.after(chance.randrange(50, 1200), self._heal, pairs)

    def _heal(self, pairs: list[tuple[str, str]]) -> None:
        self.world.say(f"healed: {pairs}")
        for one, other in pairs:
            self.world.heal(one, other)

    def _image(self) -> Image:
        return Image.of(self.store.model.snapshot())

    def _balance(self) -> None:
        ops = rebalance(self._image(), percentage=0, limit=10)
        if ops:
            self.store.admin(ops)

    def _elect(self) -> None:
        """Give a partition to any of its ISR, as an operator may."""
        image = self._image()
        partition = image.partitions[self.world.chance.choice(list(image.partitions))]
        leader = self.world.chance.choice(partition.isr)
        if partition.leader != NO_LEADER and is_fresh(partition, leader, image.brokers):
            state = changed(partition, leader, partition.isr, partition.isr_epochs, image.brokers)
            if state is not None:
                self.store.admin([check_role(image), change_partition(partition, state)])

    def _move(self) -> None:
        chance = self.world.chance
        image = self._image()
        key = chance.choice(list(image.partitions))
        live = list(image.brokers)
        if not live:
            return
        chance.shuffle(live)
        moving = bool(image.partitions[key].adding or image.partitions[key].removing)
        target = None if moving and chance.random() < 0.5 else live[: chance.randint(1, 3)]
        _, ops = alter_reassignments(image, {key: target})
        if ops:
            self.world.say(f"{key} moves to {target}")
            self.store.admin(ops)

    def _delete_records(self, broker: SimulatedBroker) -> None:
        if broker.running and not broker.paused:
            for key, replica in broker.replicas.items():
                broker.delete_records(key, replica.log.start + self.world.chance.randrange(5))

    def _may_lose(self, broker: SimulatedBroker) -> bool:
        """Whether someone who is well has all that this broker has."""
        if _is_changing_the_isr(broker):
            return False
        image = self._image()
        for partition in image.partitions.values():
            if broker.number in partition.isr and not any(
                is_fresh(partition, member, image.brokers) and self._is_well(member)
                for member in partition.isr
                if member != broker.number
            ):
                return False
        return not any(
            epoch != NO_EPOCH and image.partitions[key].isr_epoch(member) == epoch
            for key, member, epoch in self.lost
        )

    def _is_well(self, number: int) -> bool:
        broker = self.brokers[number]
        others = ["store", *(other.name for other in self.brokers.values())]
        return (
            broker.running
            and not broker.paused
            and broker.ready
            and not broker.stopping
            and broker.to_store is not None
            and not broker.to_store.broken
            and broker.lease.left(broker.now()) > SESSION_TIMEOUT / 3
            and not any(self.world.is_cut(broker.name, other) for other in others)
        )


def _is_changing_the_isr(broker: SimulatedBroker) -> bool:
    """Whether a change is on its way that could make this broker the last one in sync."""
    return any(
        replica.leadership is not None and replica.leadership.undecided
        for replica in broker.replicas.values()
    )
