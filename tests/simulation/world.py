"""Time, chance and the network of a simulation.

1. One seed decides everything: the same seed gives the same run, step by step.
2. A connection is TCP: messages of one direction arrive in order, once, or the connection is broken
   and nothing arrives on it after that. Between connections there is no order; some are slow.
3. A cut holds messages back until it heals, as retransmission does, or breaks the connection.
4. A paused process gets what has arrived when it continues; a dead one loses it.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

Call = Callable[..., object]


class Violation(AssertionError):  # noqa: N818 -- it names what happened
    """Something happened that must never happen."""


class World:
    """The clock with what is to happen, and which links are cut."""

    def __init__(self, seed: int, trace: bool = False) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.now = 0
        self.steps = 0
        self.trace = trace
        self._order = 0
        self._agenda: list[tuple[int, int, Call, tuple[Any, ...]]] = []
        self._cut: set[tuple[str, str]] = set()
        self._held: list[tuple[Connection, Endpoint, Call, tuple[Any, ...]]] = []

    def say(self, what: str) -> None:
        """A line of the trace."""
        if self.trace:
            print(f"{self.now:6} {what}")

    def after(self, delay: int, call: Call, *args: Any) -> None:
        """Do something later."""
        self._order += 1
        heappush(self._agenda, (self.now + delay, self._order, call, args))

    def run_until(self, end: int) -> None:
        """Let time pass."""
        agenda = self._agenda
        while agenda and agenda[0][0] <= end:
            self.now, _, call, args = heappop(agenda)
            self.steps += 1
            call(*args)
        self.now = end

    def latency(self) -> int:
        """How long a message takes: mostly little."""
        chance = self.chance.random()
        if chance < 0.95:
            return 1 + int(chance * 10)
        return int(10 + (chance - 0.95) * 3000)

    def cut(self, one: str, other: str) -> None:
        """Stop messages between two, both ways."""
        self._cut.update(((one, other), (other, one)))

    def heal(self, one: str, other: str) -> None:
        """Let messages between two pass again, also those that were held back."""
        self._cut.difference_update(((one, other), (other, one)))
        held, self._held = self._held, []
        for connection, to, call, args in held:
            connection.deliver(to, call, args)

    def heal_all(self) -> None:
        """Stop cutting."""
        for one, other in sorted(self._cut):
            self.heal(one, other)

    def is_cut(self, one: str, other: str) -> bool:
        """Whether messages between two do not pass."""
        return bool(self._cut) and (one, other) in self._cut

    def hold(self, connection: "Connection", to: "Endpoint", call: Call, args: Any) -> None:
        """Keep a message until the cut heals."""
        self._held.append((connection, to, call, args))


class Endpoint:
    """A process that messages reach: running, paused or dead."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.life = 0
        self.running = True
        self.paused = False
        self._backlog: list[tuple[Call, tuple[Any, ...]]] = []

    def run(self, call: Call, args: tuple[Any, ...]) -> None:
        """Handle a message or a timer, if this process can."""
        if self.paused:
            self._backlog.append((call, args))
        elif self.running:
            call(*args)

    def timer(self, delay: int, call: Call, *args: Any) -> None:
        """Do something later, in this life."""
        self.world.after(delay, self._fire, self.life, call, args)

    def _fire(self, life: int, call: Call, args: tuple[Any, ...]) -> None:
        if life == self.life:
            self.run(call, args)

    def pause(self) -> None:
        """SIGSTOP."""
        self.paused = True

    def resume(self) -> None:
        """SIGCONT: everything that came meanwhile is handled now."""
        self.paused = False
        backlog, self._backlog = self._backlog, []
        for call, args in backlog:
            self.run(call, args)

    def kill(self) -> None:
        """The process is gone, with all it had not written."""
        self.running = self.paused = False
        self.life += 1
        self._backlog.clear()


class Connection:
    """A TCP connection between two lives of two processes."""

    def __init__(self, world: World, one: Endpoint, other: Endpoint) -> None:
        self.world = world
        self.one, self.other = one, other
        self.broken = False
        self._lives = {one.name: one.life, other.name: other.life}
        self._last = {one.name: 0, other.name: 0}
        slow = world.chance.random() < 0.06
        self._lag = world.chance.randrange(50, 300) if slow else 0

    def send(self, to: Endpoint, call: Call, *args: Any) -> None:
        """Send a message to one of the two ends."""
        if self.broken:
            return
        world = self.world
        at = max(world.now + self._lag + world.latency(), self._last[to.name])
        self._last[to.name] = at
        world.after(at - world.now, self.deliver, to, call, args)

    def deliver(self, to: Endpoint, call: Call, args: tuple[Any, ...]) -> None:
        """A message has come to its end, or to a cut."""
        if self.broken or to.life != self._lives[to.name]:
            return
        if self.world.is_cut(self.one.name, self.other.name):
            if self.world.chance.random() < 0.3:
                self.broken = True
            else:
                self.world.hold(self, to, call, args)
            return
        to.run(call, args)
