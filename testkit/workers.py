"""One `ottla serve --workers N` of this checkout: a supervisor and its brokers, killed one by one.

Rules kept here:
1. The supervisor and its brokers are one process group: nothing of it outlives `stop` or `kill`.
2. Ready means: each broker answers, knows all the others, and no partition has an error.
3. A killed broker is started again by the supervisor alone.
"""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from testkit import proc
from testkit.process import BrokerError, BrokerProcess, is_ready
from testkit.raw import ClosedError, Connection
from testkit.server import free_port
from testkit.waiting import until

WORKERS = 3
FIRST_ID = 1
METADATA_VERSION = 12


class WorkersProcess(BrokerProcess):
    """A cluster on neighbouring ports of this machine, with its data in a folder."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, workers: int = WORKERS
    ) -> None:
        super().__init__(folder, settings)
        self.workers = workers
        self.port = free_port(workers)

    @property
    def bootstraps(self) -> list[str]:
        """Where each broker is found."""
        return [f"127.0.0.1:{self.port + number}" for number in range(self.workers)]

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return ",".join(self.bootstraps)

    @property
    def ids(self) -> range:
        """The brokers' ids."""
        return range(FIRST_ID, FIRST_ID + self.workers)

    def command(self) -> list[str]:
        """What a person would type."""
        return [*super().command(), "--workers", str(self.workers)]

    def answers(self) -> bool:
        """True if all brokers do, and know each other."""
        try:
            return all(
                is_ready(each) and len(_metadata(each).brokers) == self.workers
                for each in self.bootstraps
            )
        except (OSError, ClosedError):
            return False

    def wait_until_whole(self) -> None:
        """Wait until all brokers are there and know each other."""
        until(self.answers, "the brokers know each other")

    def leader(self, topic: str, index: int = 0) -> int:
        """Who leads a partition, as the first broker that answers says; -1: nobody."""
        for each in self.bootstraps:
            try:
                told = _metadata(each)
            except (OSError, ClosedError):
                continue
            for found in told.topics:
                for partition in found.partitions:
                    if (found.name, partition.partition_index) == (topic, index):
                        return partition.leader_id
        return -1

    def kill_broker(self, broker: int) -> None:
        """kill -9 of one broker; the supervisor finds out by itself."""
        pid = proc.holder(self.pid, self.data / f"broker-{broker}")
        if pid is None:
            raise BrokerError(f"broker {broker} is not running")
        os.kill(pid, signal.SIGKILL)


def _metadata(bootstrap: str) -> MetadataResponse:
    with Connection(bootstrap, patience=2) as connection:
        request = MetadataRequest(topics=None)
        return connection.ask(request, MetadataResponse, METADATA_VERSION)
