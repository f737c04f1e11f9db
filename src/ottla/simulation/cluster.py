"""The brokers of a simulation: real ones, each on a host of its own, started and killed.

Rules kept here:
1. A broker is `RunningBroker`, as `ottla serve` runs it, in a process of its own.
2. Each start is a new process on the same host: same disk, same address.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from pathlib import Path
from random import Random
from typing import Final

from ottla.broker.start_error import StartError
from ottla.config import BrokerConfig
from ottla.metadata.documents import BrokerEndpoint
from ottla.server.run import RunningBroker
from ottla.simulation.disk import SimulatedDisk
from ottla.simulation.process import SimulatedProcess
from ottla.simulation.world import World

FIRST_PORT: Final = 9100
SETTINGS: Final = {
    "ottla.store": "zookeeper://zookeeper:2181/ottla",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "100",
    "log.index.interval.bytes": "256",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "700",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "auto.create.topics.enable": "false",
    "leader.imbalance.check.interval.seconds": "10",
    "ottla.metrics.port": "-1",
}


class Host:
    """A machine with one broker: running, dead, or between."""

    def __init__(
        self, world: World, number: int, folder: Path, settings: dict[str, str], chance: Random
    ) -> None:
        self.world = world
        self.number = number
        self.port = FIRST_PORT + number
        self.name = f"host-{self.port}"
        self.disk = SimulatedDisk(folder, chance)
        self.process: SimulatedProcess | None = None
        self.broker: RunningBroker | None = None
        self.wall_offset = 0.0
        self.boots = 0
        self._starts = 0
        self._dead: list[object] = []
        """Kept: what a dead process has left must not be collected, which would run its ends."""
        self._settings = {
            **SETTINGS,
            **settings,
            "node.id": str(number),
            "log.dirs": str(folder),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
        }

    @property
    def where(self) -> BrokerEndpoint:
        """Where clients find it."""
        return BrokerEndpoint("PLAINTEXT", "127.0.0.1", self.port)

    @property
    def is_up(self) -> bool:
        """Whether a process runs, be it paused."""
        return self.process is not None and self.process.alive

    @property
    def is_ready(self) -> bool:
        """Whether it serves clients."""
        return self.is_up and self.broker is not None and self.broker.node.ready

    def start(self) -> None:
        """Start the broker, if none runs; again and again, if it cannot."""
        if self.is_up:
            return
        self._starts += 1
        process = SimulatedProcess(f"broker-{self.number}#{self._starts}", self.name, self.disk)
        process.boot_id = f"boot-{self.boots}"
        process.wall_offset = self.wall_offset
        self.process = process
        self.world.say(f"{process.name} starts")
        process.start(self._run(process), process.name)

    async def _run(self, process: SimulatedProcess) -> None:
        try:
            broker = self.broker = RunningBroker(BrokerConfig.from_static(self._settings))
            broker.node.lifecycle.on_end = lambda reason: self._ended(process, reason)
            await broker.start()
        except StartError as problem:
            self._ended(process, str(problem))

    def _ended(self, process: SimulatedProcess, reason: str) -> None:
        """It has given up; a supervisor would start it again."""
        self.world.say(f"{process.name} ended: {reason}")
        self.world.count("brokers that gave up")
        # In no process's context: the one that runs now is about to end.
        self.world.loop.call_soon(self.kill, context=Context())
        self.world.loop.call_later(1.0, self.start, context=Context())

    def kill(self, *, power: bool = False) -> None:
        """End the process at once; with the power the page cache goes too."""
        process, broker, self.process, self.broker = self.process, self.broker, None, None
        if process is None or not process.alive:
            return
        process.alive = False
        self.world.network.end_process(process, silently=power)
        self.world.say(f"{process.name} {'loses power' if power else 'is killed'}")
        if power:
            self.boots += 1
            self.disk.lose_power()
        self._dead.append((process, broker))

    def pause(self) -> None:
        """SIGSTOP."""
        if self.process is not None and not self.process.paused:
            self.world.say(f"{self.process.name} is paused")
            self.process.paused = True

    def resume(self) -> None:
        """SIGCONT."""
        process = self.process
        if process is None or not process.paused:
            return
        self.world.say(f"{process.name} is resumed")
        process.paused = False
        held, process.held = process.held, []
        for handle in held:
            if not handle.cancelled():
                self.world.loop.run_again(handle)

    async def stop(self) -> None:
        """SIGTERM: a controlled shutdown."""
        process, broker = self.process, self.broker
        if process is None or broker is None or not broker.node.ready:
            return
        self.world.say(f"{process.name} is asked to stop")
        await asyncio.wait([process.start(broker.stop())])
        if self.process is process:
            self.kill()


class Cluster:
    """All hosts."""

    def __init__(
        self, world: World, folder: Path, count: int, settings: dict[str, str] | None = None
    ) -> None:
        self.hosts = {
            number: Host(
                world, number, folder / str(number), settings or {}, world.chance(f"disk {number}")
            )
            for number in range(1, count + 1)
        }

    def start(self) -> None:
        """Start all brokers."""
        for host in self.hosts.values():
            host.start()

    def port_of(self, number: int) -> int:
        """Where a broker listens."""
        return self.hosts[number].port

    def ready(self) -> list[Host]:
        """Those that serve."""
        return [host for host in self.hosts.values() if host.is_ready]
