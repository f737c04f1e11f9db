"""Three brokers as one server of the bench: Ottla's workers, and three nodes of Apache Kafka.

Rules: both are as a person would run them on one machine, with their defaults: `ottla serve
--workers 3`, and three KRaft nodes that are broker and controller together. Figures are those of
all three, and for Ottla of the supervisor too.
"""

import os
import signal
import time
from abc import abstractmethod
from functools import reduce
from operator import add
from pathlib import Path

from bench.ottla import Ottla
from testkit import proc
from testkit.errors import HarnessError
from testkit.kafka import Kafka, new_cluster_id
from testkit.probe import is_ready
from testkit.server import READY_SECONDS, Server

BROKERS = 3
LOOK_AGAIN_SECONDS = 0.02


class Cluster(Server):
    """Several brokers that can be killed one by one."""

    @abstractmethod
    def kill(self, broker: int) -> None:
        """kill -9 of the broker with this id."""

    @abstractmethod
    def revive(self, broker: int) -> None:
        """Brings a killed broker back, and waits until all of them know each other again."""

    def segments(self, topic: str) -> list[Path]:
        """The log files of all replicas of a topic."""
        return sorted(self.folder.glob(f"**/{topic}-*/*.log"))

    def _wait_for_all(self) -> None:
        give_up = time.monotonic() + READY_SECONDS
        while not all(is_ready(port, BROKERS) for port in self.ports):
            if time.monotonic() > give_up:
                raise HarnessError(f"{self.name}: not all brokers were back in {READY_SECONDS} s")
            time.sleep(LOOK_AGAIN_SECONDS)


class OttlaCluster(Ottla, Cluster):
    """A supervisor and its workers, which it starts again by itself."""

    brokers = BROKERS

    def __init__(self, folder: Path, installed: Path | None = None) -> None:
        super().__init__(folder, BROKERS, installed)

    def command(self) -> list[str]:
        """The same command that a person types."""
        return [*super().command(), "--workers", str(BROKERS)]

    def kill(self, broker: int) -> None:
        """kill -9 of the worker; the supervisor is not told."""
        worker = proc.holder(self.pid, self.data / f"broker-{broker}")
        if worker is None:
            raise HarnessError(f"no process has the data of broker {broker} open")
        os.kill(worker, signal.SIGKILL)

    def revive(self, broker: int) -> None:
        """Waits for what the supervisor does."""
        give_up = time.monotonic() + READY_SECONDS
        while proc.holder(self.pid, self.data / f"broker-{broker}") is None:
            if time.monotonic() > give_up:
                raise HarnessError(f"broker {broker} was not started again")
            time.sleep(LOOK_AGAIN_SECONDS)
        self._wait_for_all()


class KafkaNode(Kafka):
    """One of several."""

    brokers = BROKERS

    def __init__(self, folder: Path, libs: Path, node_id: int, log: Path) -> None:
        super().__init__(folder, libs)
        self.node_id = node_id
        self.log = log
        self.all: list[KafkaNode] = []

    def voters(self) -> str:
        """The controllers' quorum: every node."""
        return ",".join(f"{node.node_id}@127.0.0.1:{node.controller_port}" for node in self.all)

    def replicas(self) -> dict[str, str]:
        """Internal topics as Kafka has them."""
        return {}

    def kill(self) -> None:
        """kill -9."""
        os.kill(self.pid, signal.SIGKILL)


class KafkaCluster(Cluster):
    """Three nodes of Apache Kafka."""

    name = "Kafka"

    def __init__(self, folder: Path, libs: Path) -> None:
        super().__init__(folder)
        cluster_id = new_cluster_id()
        self.nodes = [
            KafkaNode(
                folder / f"node-{number}",
                libs,
                number,
                folder.parent.with_name(f"{folder.name}-{number}.log"),
            )
            for number in range(1, BROKERS + 1)
        ]
        for node in self.nodes:
            node.all = self.nodes
            node.cluster_id = cluster_id
        self.ports = [node.port for node in self.nodes]

    def start(self) -> float:
        """Starts all nodes; gives the seconds until all knew each other."""
        for node in self.nodes:
            node.launch()
        return max(node.wait_until_ready() for node in self.nodes)

    def stop(self) -> None:
        """Ends all nodes at once: one by one they would wait for each other."""
        for node in self.nodes:
            node.end()

    def cpu_seconds(self) -> float:
        """Of all nodes."""
        return sum(node.cpu_seconds() for node in self.nodes)

    def memory(self) -> proc.Memory:
        """Of all nodes."""
        return reduce(add, (node.memory() for node in self.nodes))

    def kill(self, broker: int) -> None:
        """kill -9 of a node."""
        self.nodes[broker - 1].kill()

    def revive(self, broker: int) -> None:
        """Starts the node again."""
        node = self.nodes[broker - 1]
        node.end()
        node.launch()
        node.wait_until_ready()
        self._wait_for_all()
