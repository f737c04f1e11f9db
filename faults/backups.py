"""Backups of ZooKeeper's data, and putting an older one under brokers that run.

Rules kept here:
1. Data is put back only while no server runs, and all servers get the same, as an operator does it.
2. The state that an older one takes the place of is kept and comes back at the end: so what brokers
   did with the older one must not have cost anything that was acknowledged.
"""

import shutil
import subprocess
from pathlib import Path

from testkit.zookeeper_servers import Ensemble

FIRST = "first"
LATEST = "latest"


class Backups:
    """The backups of one ensemble."""

    def __init__(self, ensemble: Ensemble, folder: Path) -> None:
        self._servers = ensemble.servers
        self._folder = folder
        folder.mkdir()

    def take_first(self) -> None:
        """Copy the data of a server that has little to do."""
        _copy(self._servers[0].data, self._folder / FIRST)

    def put_older(self, newest: bool) -> str:
        """Stop the servers, give them the first or the newest backup, and start them; which one.

        What they have now is kept, and is the newest backup from then on.
        """
        chosen = LATEST if newest and (self._folder / LATEST).exists() else FIRST
        self._stop()
        for place, server in enumerate(self._servers):
            _copy(server.data, self._folder / f"current-{place}")
            _copy(self._folder / chosen, server.data)
        _copy(self._folder / "current-0", self._folder / LATEST)
        self._start()
        return chosen

    def put_current(self) -> None:
        """Stop the servers, and give them back what they had."""
        self._stop()
        for place, server in enumerate(self._servers):
            _copy(self._folder / f"current-{place}", server.data)
        self._start()

    def _stop(self) -> None:
        for server in self._servers:
            server.kill()

    def _start(self) -> None:
        for server in self._servers:
            server.start()
        for server in self._servers:
            server.wait_until_up()


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    # ZooKeeper makes its files large before it fills them.
    subprocess.run(["cp", "-a", "--sparse=always", source, target], check=True)
