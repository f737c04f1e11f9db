"""What goes wrong in a run, and when. The seed chooses which kinds of faults there are.

Rules kept here:
1. Processes die any number at once: they lose nothing, the page cache survives.
2. A host loses power or its disk only while every partition that it has in sync has another
   member in sync that is well, and until the ISR has forgotten what was lost, that other does not
   lose its own. Everybody knows at once that it is gone; else the ISR could shrink to it alone.
3. Everything that is begun ends: cuts heal, paused processes are resumed, dead brokers start again.
4. Each fault has a number and a generator of its own: without one of them the others are the
   same, so a schedule can be shrunk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from random import Random
from typing import Final

from ottla.simulation.admin import Admin
from ottla.simulation.cluster import Cluster, Host
from ottla.simulation.metadata import image_of
from ottla.simulation.world import World
from ottla.simulation.zookeeper_server import ZOOKEEPER_HOST

FAULTS: Final = (
    "kill",
    "kill all",
    "power",
    "disk",
    "pause",
    "cut",
    "cut from ZooKeeper",
    "quorum",
    "session",
    "stop",
    "full disk",
    "clock",
    "slow network",
    "elect",
    "move",
    "delete records",
    "folder",
    "recreate",
)


class Nemesis:
    """Injects faults now and then, until it is stopped."""

    def __init__(
        self, world: World, cluster: Cluster, admin: Admin, without: Collection[int] = ()
    ) -> None:
        self.world = world
        self.cluster = cluster
        self.admin = admin
        self.without = without
        chance = world.chance("nemesis")
        count = chance.choice((1, 2, 3, 5, len(FAULTS)))
        self.kinds = sorted(chance.sample(FAULTS, count))
        self.every = chance.choice((0.3, 1.0, 3.0))
        self.faults = 0
        """How many there were, those left out too."""
        self.ended = False
        self._lost: set[tuple[str, int, int, int]] = set()
        """Topic, partition, broker, and the epoch in the ISR of what has lost its records."""
        self._acts: dict[str, Callable[[Host, Random], None]] = {
            "kill": self._kill,
            "kill all": self._kill_all,
            "power": self._power,
            "disk": self._disk,
            "pause": self._pause,
            "cut": self._cut,
            "cut from ZooKeeper": self._cut_from_zookeeper,
            "quorum": self._quorum,
            "session": self._session,
            "stop": self._stop,
            "full disk": self._full_disk,
            "clock": self._clock,
            "slow network": self._slow_network,
            "elect": lambda host, chance: self._do(self.admin.elect()),
            "move": lambda host, chance: self._do(self.admin.move()),
            "folder": self._folder,
            "recreate": lambda host, chance: self._do(self.admin.recreate(chance)),
            "delete records": lambda host, chance: self._do(self.admin.delete_records()),
        }

    async def run(self) -> None:
        """Do one bad thing after another."""
        self.world.say(f"faults: {', '.join(self.kinds)}, every {self.every} s")
        while True:
            self.faults += 1
            chance = self.world.chance(f"fault {self.faults}")
            await asyncio.sleep(chance.expovariate(1 / self.every))
            if self.ended:
                return
            kind = chance.choice(self.kinds)
            host = self.cluster.hosts[chance.choice(list(self.cluster.hosts))]
            if self.faults not in self.without:
                self.world.say(f"fault {self.faults}: {kind}, {host.name}")
                self._acts[kind](host, chance)
                self.world.count(f"fault: {kind}")

    def end(self) -> None:
        """Mend everything."""
        self.ended = True
        world = self.world
        world.say("the faults end")
        world.network.heal_all()
        world.network.latency = (0.000_1, 0.002)
        world.zookeeper.regain_quorum()
        for host in self.cluster.hosts.values():
            host.disk.full = False
            host.resume()
            host.start()

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self.world.loop.call_later(seconds, act)

    def _do(self, work: Coroutine[object, object, None]) -> None:
        self.admin.process.start(work)

    # Processes and hosts ------------------------------------------------------------------

    def _start_later(self, host: Host, chance: Random) -> None:
        quickly = chance.random() < 0.5
        self._later(chance.uniform(0.01, 0.3 if quickly else 10.0), host.start)

    def _kill(self, host: Host, chance: Random) -> None:
        host.kill()
        self._start_later(host, chance)

    def _kill_all(self, host: Host, chance: Random) -> None:
        for each in self.cluster.hosts.values():
            self._later(chance.uniform(0.0, 0.5), each.kill)
            self._later(chance.uniform(0.6, 8.0), each.start)

    def _power(self, host: Host, chance: Random) -> None:
        if host.process is None or not self._may_lose(host):
            return
        self._declare_dead(host)
        host.kill(power=True)
        self._start_later(host, chance)

    def _disk(self, host: Host, chance: Random) -> None:
        if host.process is None or not self._may_lose(host):
            return
        self._declare_dead(host)
        host.kill()
        host.disk.replace()
        self._start_later(host, chance)

    def _folder(self, host: Host, chance: Random) -> None:
        """The documented repair of a damaged partition: its folder is removed."""
        if host.process is None or not self._may_lose(host):
            return
        here = sorted(path.name for path in host.disk.root.glob("t[0-9]*-[0-9]*"))
        if here:
            self._declare_dead(host)
            host.kill()
            host.disk.remove_folder(chance.choice(here))
            self._start_later(host, chance)

    def _declare_dead(self, host: Host) -> None:
        image = image_of(self.world.zookeeper)
        for (topic, index), partition in image.partitions.items():
            if host.number in partition.isr:
                epoch = partition.isr_epoch(host.number)
                self._lost.add((topic, index, host.number, epoch))
        self.world.zookeeper.end_sessions_of(host.name)

    def _may_lose(self, host: Host) -> bool:
        """Whether every partition that this host has in sync has another that is well."""
        image = image_of(self.world.zookeeper)
        return all(
            host.number not in partition.isr
            or any(
                member != host.number
                and member in image.brokers
                and (topic, index, member, partition.isr_epoch(member)) not in self._lost
                for member in partition.isr
            )
            for (topic, index), partition in image.partitions.items()
        )

    def _pause(self, host: Host, chance: Random) -> None:
        host.pause()
        self._later(chance.uniform(0.05, chance.choice((0.5, 4.0, 12.0))), host.resume)

    def _stop(self, host: Host, chance: Random) -> None:
        async def stop_and_start() -> None:
            await host.stop()
            self._start_later(host, chance)

        self._do(stop_and_start())

    def _clock(self, host: Host, chance: Random) -> None:
        by = chance.choice((-3600.0, -30.0, -1.0, 1.0, 30.0, 3600.0))
        host.wall_offset += by
        if host.process is not None:
            host.process.wall_offset = host.wall_offset
        self.world.say(f"the clock of {host.name} is set by {by} s")

    def _full_disk(self, host: Host, chance: Random) -> None:
        self.world.say(f"the disk of {host.name} is full")
        host.disk.full = True

        def heal() -> None:
            host.disk.full = False

        self._later(chance.uniform(0.1, 6.0), heal)

    # The network and ZooKeeper ------------------------------------------------------------

    def _cut(self, host: Host, chance: Random) -> None:
        others = [each for each in self.cluster.hosts.values() if each is not host]
        for other in chance.sample(others, chance.randint(min(1, len(others)), len(others))):
            self._cut_way(host.name, other.name, chance)

    def _cut_from_zookeeper(self, host: Host, chance: Random) -> None:
        self._cut_way(host.name, ZOOKEEPER_HOST, chance)

    def _cut_way(self, one: str, other: str, chance: Random) -> None:
        ways = chance.choice(([(one, other)], [(other, one)], [(one, other), (other, one)]))
        self.world.say(f"cut: {ways}")
        for way in ways:
            self.world.network.cut(*way)

        def heal() -> None:
            for way in ways:
                self.world.network.heal(*way)

        self._later(chance.uniform(0.1, chance.choice((1.0, 5.0, 15.0))), heal)

    def _quorum(self, host: Host, chance: Random) -> None:
        self.world.say("ZooKeeper has no quorum")
        self.world.zookeeper.has_quorum = False
        self._later(chance.uniform(0.2, 10.0), self.world.zookeeper.regain_quorum)

    def _session(self, host: Host, chance: Random) -> None:
        self.world.zookeeper.end_sessions_of(host.name)

    def _slow_network(self, host: Host, chance: Random) -> None:
        network = self.world.network
        network.latency = chance.choice(((0.000_1, 0.002), (0.001, 0.05), (0.01, 0.3)))
