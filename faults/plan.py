"""Which faults come, to whom, and for how long: drawn from a seed, and from nothing else.

Rules kept here:
1. One seed is one sequence of steps. Who is the controller or a leader at that time is not known
   here: a step names the role, and the injector finds who has it.
2. A step has one fault, or two at once. One fault leaves two brokers and a quorum; two may not.
3. A bounded step is one after which a healthy cluster must take writes again in bounded time,
   whether the victim comes back or not.
4. What takes data away (a disk, a folder, the store's latest state) comes alone and is followed by
   calm: one in-sync replica survives, so nothing acknowledged may be lost.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random


class Kind(StrEnum):
    """What is done to a victim."""

    KILL = "kill -9"
    STOP = "stop"
    PAUSE = "pause"
    CUT = "cut"
    CUT_STORE = "cut from ZooKeeper"
    CUT_FRONT = "cut from clients"
    DISK = "full disk"
    CLOCK = "clock step"
    EMPTY = "empty disk"
    REMOVED = "removed folders"
    KILL_ALL = "kill -9 of all"
    EMPTY_ALL = "kill -9 of all, first back is empty"
    REASSIGN = "reassign and cancel"
    RECREATE = "delete and recreate"
    TRIM = "delete records"
    RESTORE = "older store"


class Role(StrEnum):
    """To whom it is done."""

    BROKER = "broker"
    LEADER = "leader"
    CONTROLLER = "controller"
    SERVER = "ZooKeeper server"
    SERVER_LEADER = "ZooKeeper leader"
    CLUSTER = "cluster"


ZOOKEEPER_ROLES = (Role.SERVER, Role.SERVER_LEADER)
BROKER_ROLES = (Role.BROKER, Role.LEADER, Role.CONTROLLER)
# kind: weight, and how long it lasts (seconds)
OF_BROKERS = {
    Kind.KILL: (4, (0.0, 7.0)),
    Kind.STOP: (1, (0.0, 3.0)),
    Kind.PAUSE: (3, (0.5, 8.0)),
    Kind.CUT: (3, (0.5, 8.0)),
    Kind.CUT_STORE: (2, (0.5, 8.0)),
    Kind.CUT_FRONT: (1, (0.5, 5.0)),
    Kind.DISK: (2, (1.0, 8.0)),
    Kind.CLOCK: (2, (0.5, 8.0)),
}
# What a person does to the cluster while it runs; a broker may be hurt at the same time.
OF_OPERATORS = {
    Kind.REASSIGN: (3, (0.0, 4.0)),
    Kind.RECREATE: (2, (0.0, 4.0)),
    Kind.TRIM: (1, (0.0, 4.0)),
}
# What takes data away.
OF_DATA = {
    Kind.EMPTY: (3, (0.0, 7.0)),
    Kind.REMOVED: (2, (0.0, 5.0)),
    Kind.KILL_ALL: (1, (0.0, 6.0)),
    Kind.EMPTY_ALL: (2, (1.0, 8.0)),
    Kind.RESTORE: (2, (2.0, 8.0)),
}
CLUSTER_KINDS = (*OF_OPERATORS, Kind.KILL_ALL, Kind.EMPTY_ALL, Kind.RESTORE)
BESIDE_AN_OPERATOR = (Kind.KILL, Kind.STOP, Kind.PAUSE, Kind.CUT, Kind.CUT_STORE, Kind.CUT_FRONT)
CLOCK_STEPS = (-1800.0, -30.0, -5.0, 5.0, 30.0, 1800.0)
"""Shorter than an hour: a broker refuses records whose time is an hour ahead of its own."""
OF_SERVERS = {
    Kind.KILL: (2, (0.0, 5.0)),
    Kind.PAUSE: (2, (0.5, 6.0)),
    Kind.CUT: (1, (0.5, 6.0)),
    Kind.DISK: (1, (1.0, 4.0)),
}
NEEDS_ZOOKEEPER = (Kind.CUT_STORE, Kind.RESTORE)
BOUNDED = (
    Kind.KILL,
    Kind.STOP,
    Kind.PAUSE,
    Kind.CUT,
    Kind.CUT_STORE,
    Kind.CLOCK,
    Kind.EMPTY,
    Kind.REMOVED,
)
BOUNDED_WITHOUT_ZOOKEEPER = (Kind.KILL, Kind.STOP, Kind.CLOCK, Kind.EMPTY, Kind.REMOVED)
ALWAYS_SETTLE = (*OF_DATA, *OF_OPERATORS)
SHORT_PAUSE = 2.0
"""Without ZooKeeper nobody finds out that a broker is silent: such faults are kept short."""


@dataclass(frozen=True)
class Fault:
    """One thing that happens to one victim."""

    kind: Kind
    role: Role
    seconds: float
    silent: bool
    """A cut: as a pulled cable, or as connections that are reset."""
    lot: int
    """Which of those that have the role."""

    def __str__(self) -> str:
        how = ("silent " if self.silent else "reset ") if "cut" in self.kind else ""
        if self.kind is Kind.CLOCK:
            how = f"{self.clock_step:+.0f} s "
        return f"{how}{self.kind} of {self.role} for {self.seconds:.1f} s"

    @property
    def clock_step(self) -> float:
        """How far a clock is stepped."""
        return CLOCK_STEPS[self.lot % len(CLOCK_STEPS)]


@dataclass(frozen=True)
class Step:
    """What happens next: after some calm one fault or two, and then calm again or not."""

    calm: float
    faults: tuple[Fault, ...]
    apart: float
    settle: bool

    @property
    def label(self) -> str:
        """Under what it is counted."""
        if len(self.faults) == 1:
            (fault,) = self.faults
            return f"{fault.role}: {fault.kind}"
        for fault in self.faults:
            if fault.kind in OF_OPERATORS:
                return f"two at once: {fault.kind} and a broker"
        of_zookeeper = sum(fault.role in ZOOKEEPER_ROLES for fault in self.faults)
        names = ("two brokers", "broker and ZooKeeper", "two of ZooKeeper")
        return f"two at once: {names[of_zookeeper]}"

    def is_bounded(self, has_zookeeper: bool) -> bool:
        """Whether writes must continue in bounded time, though the fault may last."""
        if len(self.faults) != 1:
            return False
        (fault,) = self.faults
        if fault.role in ZOOKEEPER_ROLES:
            return True
        return fault.kind in (BOUNDED if has_zookeeper else BOUNDED_WITHOUT_ZOOKEEPER)


def steps(
    seed: int,
    has_zookeeper: bool,
    can_fill_servers: bool = True,
    only: Collection[Kind] = (),
) -> Iterator[Step]:
    """The endless sequence of a seed, or of its steps with one of some kinds of fault."""
    for step in _all_steps(seed, has_zookeeper, can_fill_servers):
        if not only or any(fault.kind in only for fault in step.faults):
            yield step


def _all_steps(seed: int, has_zookeeper: bool, can_fill_servers: bool) -> Iterator[Step]:
    rng = Random(seed)
    faults: tuple[Fault, ...]
    while True:
        drawn = rng.random()
        if drawn < 0.12:
            faults = (_of_broker(rng, has_zookeeper), _of_broker(rng, has_zookeeper))
        elif drawn < 0.18 and has_zookeeper:
            faults = (_of_broker(rng, True), _of_server(rng, can_fill_servers))
        elif drawn < 0.22 and has_zookeeper:
            faults = (_of_server(rng, can_fill_servers), _of_server(rng, can_fill_servers))
        elif drawn < 0.34 and has_zookeeper:
            faults = (_of_server(rng, can_fill_servers),)
        elif drawn < 0.48:
            faults = _of_operator(rng, has_zookeeper)
        elif drawn < 0.60:
            faults = (_of_data(rng, has_zookeeper),)
        else:
            faults = (_of_broker(rng, has_zookeeper),)
        yield Step(
            calm=rng.uniform(0.3, 2.0),
            faults=faults,
            apart=rng.choice((0.0, rng.uniform(0.0, 2.0))),
            settle=rng.random() < 0.85 or any(fault.kind in ALWAYS_SETTLE for fault in faults),
        )


def _of_broker(rng: Random, has_zookeeper: bool) -> Fault:
    kinds = [kind for kind in OF_BROKERS if has_zookeeper or kind not in NEEDS_ZOOKEEPER]
    kind = rng.choices(kinds, [OF_BROKERS[each][0] for each in kinds])[0]
    role = rng.choices(BROKER_ROLES, (2, 2, 1))[0]
    shortest, longest = OF_BROKERS[kind][1]
    if not has_zookeeper and kind not in (Kind.KILL, Kind.STOP):
        longest = min(longest, SHORT_PAUSE)
    return Fault(kind, role, rng.uniform(shortest, longest), rng.random() < 0.5, rng.randrange(6))


def _of_operator(rng: Random, has_zookeeper: bool) -> tuple[Fault, ...]:
    """Something that a person does, alone or while a broker is hurt."""
    fault = _draw(rng, OF_OPERATORS, Role.CLUSTER)
    if rng.random() < 0.5:
        return (fault,)
    kinds = {kind: OF_BROKERS[kind] for kind in BESIDE_AN_OPERATOR}
    if not has_zookeeper:
        kinds = {kind: kinds[kind] for kind in (Kind.KILL, Kind.STOP)}
    other = _draw(rng, kinds, rng.choice(BROKER_ROLES))
    return (fault, other) if rng.random() < 0.5 else (other, fault)


def _of_data(rng: Random, has_zookeeper: bool) -> Fault:
    kinds = {
        kind: how for kind, how in OF_DATA.items() if has_zookeeper or kind not in NEEDS_ZOOKEEPER
    }
    fault = _draw(rng, kinds, Role.CLUSTER)
    if fault.kind in CLUSTER_KINDS:
        return fault
    return replace(fault, role=rng.choice(BROKER_ROLES))


def _draw(rng: Random, kinds: dict[Kind, tuple[int, tuple[float, float]]], role: Role) -> Fault:
    kind = rng.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
    return Fault(kind, role, rng.uniform(*kinds[kind][1]), rng.random() < 0.5, rng.randrange(6))


def _of_server(rng: Random, can_fill: bool) -> Fault:
    kinds = [kind for kind in OF_SERVERS if can_fill or kind is not Kind.DISK]
    kind = rng.choices(kinds, [OF_SERVERS[each][0] for each in kinds])[0]
    role = rng.choice(ZOOKEEPER_ROLES)
    seconds = rng.uniform(*OF_SERVERS[kind][1])
    return Fault(kind, role, seconds, rng.random() < 0.5, rng.randrange(6))
