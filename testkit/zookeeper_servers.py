"""Real ZooKeeper servers for tests, from the jars that PySpark carries, and faults for them.

One server, or three that form a quorum, on free ports of 127.0.0.1. Data and logs are in the folder
that is given; ticks are short, so that sessions may be. `stop` leaves nothing running.
"""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from testkit.waiting import until

TICK = 0.2
MAX_SESSION_TIMEOUT = 30.0
STARTS_WITHIN = 60.0
_JARS = (
    "zookeeper-",
    "slf4j-api-",
    "log4j-",
    "metrics-core-",
    "netty-",
    "snappy-java-",
    "commons-io-",
    "commons-cli-",
    "audience-annotations-",
)
_SMALL_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class DamagedData(RuntimeError):  # noqa: N818 (it names a state of the server)
    """A server cannot read its own data: a full disk may leave a torn record in its log."""


class ZooKeeperServer:
    """One server process."""

    def __init__(self, folder: Path, number: int, port: int, servers: dict[int, str]) -> None:
        self.port = port
        self.log = folder / "zookeeper.log"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "myid").write_text(f"{number}\n")
        lines = {
            "tickTime": int(TICK * 1000),
            "initLimit": 50,
            "syncLimit": 10,
            "dataDir": folder / "data",
            "clientPort": port,
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "maxSessionTimeout": int(MAX_SESSION_TIMEOUT * 1000),
            "4lw.commands.whitelist": "srvr",
            **{f"server.{other}": address for other, address in servers.items()},
        }
        config = "".join(f"{name}={value}\n" for name, value in lines.items())
        (folder / "zoo.cfg").write_text(config)

    def start(self) -> None:
        """Start the process; it is up when `mode` says so."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "java",
                    *_SMALL_JVM,
                    "-Dorg.apache.logging.log4j.level=INFO",
                    "-Dzookeeper.forceSync=no",
                    "-cp",
                    _class_path(),
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                    str(self._folder / "zoo.cfg"),
                ],
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )

    @property
    def data(self) -> Path:
        """Where it keeps its snapshots and its transaction log."""
        return self._folder / "data" / "version-2"

    @property
    def process_id(self) -> int:
        """The id of the running process; raises ProcessLookupError where it was killed."""
        process = self._process
        if process is None:
            raise ProcessLookupError(f"the ZooKeeper server of {self._folder} does not run")
        return process.pid

    @property
    def is_running(self) -> bool:
        """True if the process lives."""
        return self._process is not None and self._process.poll() is None

    def mode(self) -> str | None:
        """`standalone`, `leader` or `follower`; None while it does not serve."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                connection.sendall(b"srvr")
                answer = b""
                while chunk := connection.recv(4096):
                    answer += chunk
        except OSError:
            return None
        for line in answer.decode().splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return None

    def wait_until_up(self) -> None:
        """Return when it serves."""

        def serves() -> bool:
            assert self._process is not None
            if self._process.poll() is not None:
                said = self.log.read_text()[-3000:]
                is_damaged = "Unable to load database on disk" in said
                why = f"ZooKeeper does not start:\n{said}"
                raise DamagedData(why) if is_damaged else RuntimeError(why)
            return self.mode() is not None

        until(serves, f"ZooKeeper serves; see {self.log}", STARTS_WITHIN)

    def kill(self) -> None:
        """As kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """As kill -STOP; connections stay open and silent."""
        os.kill(self.process_id, signal.SIGSTOP)

    def resume(self) -> None:
        """End a pause."""
        os.kill(self.process_id, signal.SIGCONT)

    def restart(self) -> None:
        """Start a killed server again, with its data, and wait for it."""
        self.start()
        self.wait_until_up()

    def replace(self) -> None:
        """Start again without data: the others, which must serve, have all of it."""
        shutil.rmtree(self.data)
        self.restart()


class Ensemble:
    """One or more servers that know each other."""

    def __init__(self, folder: Path, size: int = 1) -> None:
        ports = _free_ports(3 * size)
        addresses = {
            number: f"127.0.0.1:{ports[size + number]}:{ports[2 * size + number]}"
            for number in range(size)
        }
        quorum = {number + 1: address for number, address in addresses.items()} if size > 1 else {}
        self.servers = [
            ZooKeeperServer(folder / f"zookeeper-{number + 1}", number + 1, ports[number], quorum)
            for number in range(size)
        ]

    def start(self) -> None:
        """Start all servers and wait until they serve."""
        for server in self.servers:
            server.start()
        for server in self.servers:
            server.wait_until_up()

    def stop(self) -> None:
        """End all processes, paused ones too."""
        for server in self.servers:
            server.kill()

    def address(self, chroot: str = "") -> str:
        """What `--store` takes."""
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self.servers)
        return f"zookeeper://{hosts}{chroot}"

    def leader(self) -> ZooKeeperServer:
        """The server that leads the quorum now."""
        return next(one for one in self.servers if one.mode() in ("leader", "standalone"))


@contextmanager
def running_ensemble(folder: Path, size: int = 1) -> Iterator[Ensemble]:
    """Servers that run inside the block."""
    ensemble = Ensemble(folder, size)
    try:
        ensemble.start()
        yield ensemble
    finally:
        ensemble.stop()


def _class_path() -> str:
    spec = find_spec("pyspark")
    assert spec is not None, "the tests need the spark extra"
    assert spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    return ":".join(str(jar) for jar in sorted(jars.iterdir()) if jar.name.startswith(_JARS))


def _free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [one.getsockname()[1] for one in listeners]
    for one in listeners:
        one.close()
    return ports
