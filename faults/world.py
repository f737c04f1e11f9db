"""The cluster that is hurt: three brokers, their store, the network between them, and their disks.

Rules kept here:
1. Clients and brokers find a broker at its gate, and each broker finds ZooKeeper at gates of its
   own: so each can be cut off alone. The harness itself looks at brokers directly.
2. A broker of a shared SQLite file is declared dead once its process is gone, as a supervisor does.
3. Every fault has an end that makes good what it did, whatever became of the victim meanwhile.
4. A secure world's brokers log in at each other over SASL_SSL, behind gates that are cut together
   with those of the clients, and check ACLs.
"""

import os
import shutil
import signal
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from faults.backups import Backups
from faults.clocks import Clock, build_library
from faults.disks import Disk, LimitedFiles, MountedDisk, can_mount
from ottla.config.broker_network_configs import STANDARD_AUTHORIZER
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from testkit.certificates import Certificates, plain_users
from testkit.cluster import ClusterProcesses
from testkit.process import METADATA_VERSION, BrokerError, BrokerProcess
from testkit.proxy import Gate, Gates, Mode
from testkit.raw import ClosedError, Connection
from testkit.server import free_port
from testkit.waiting import until
from testkit.zookeeper_servers import TICK, DamagedData, Ensemble, ZooKeeperServer

BROKERS = 3
SESSION_SECONDS = 3.0
TICK_SECONDS = TICK
LAG_SECONDS = 4.0
IN_SYNC_WITHIN_SECONDS = 90.0
SERVES_AGAIN_WITHIN_SECONDS = 15.0
LOOK_AGAIN_SECONDS = 0.25
SETTINGS = {
    # Or a producer that was there before would create a deleted topic again, with other settings.
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
    "replica.lag.time.max.ms": str(int(LAG_SECONDS * 1000)),
    "min.insync.replicas": "2",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "300",
    "log.segment.bytes": str(8 << 20),
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "1000",
}
NO_ZOOKEEPER_AT_START = "ottla: ZooKeeper "
UNREACHABLE = (OSError, ClosedError, StopIteration)


class World:
    """Brokers, and with ZooKeeper its servers. `with` it; `keep` says whether data stays."""

    def __init__(self, folder: Path, store: str, *, secure: bool = False) -> None:
        self.folder = folder
        self.has_zookeeper = store == "zookeeper"
        self.is_secure = secure
        self.keep = True
        self._stack = ExitStack()
        self.zookeeper: Ensemble | None = None
        self.disks: list[Disk] = []
        self.zookeeper_disks: list[Disk] = []
        self._backups: Backups | None = None
        self.clocks: list[Clock] = []
        """Empty where there is no C compiler."""
        self._damaged: set[int] = set()
        self.mounts = can_mount(folder / "mounted")

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._gates = stack.enter_context(Gates())
            self._fronts = [self._gates.gate() for _ in range(BROKERS)]
            self._inner: list[Gate] = []
            """Where a secure world's brokers find each other."""
            if self.is_secure:
                self._inner = [self._gates.gate(free_port()) for _ in range(BROKERS)]
            # The gates of each broker to each server of ZooKeeper:
            self._ways: list[list[Gate]] = [[] for _ in range(BROKERS)]
            stack.callback(self._close_disks)
            if self.has_zookeeper:
                self._start_zookeeper(stack)
            for number in range(BROKERS):
                if self.mounts:
                    self.disks.append(MountedDisk(self.folder / f"broker-{number}" / "data"))
            self.brokers = ClusterProcesses(
                self.folder,
                BROKERS,
                SETTINGS | self._security(),
                store="zookeeper://" if self.has_zookeeper else None,
                each=self._settings_of,
            )
            if not self.mounts:
                for broker in self.brokers.brokers:
                    self.disks.append(LimitedFiles(broker.data, lambda its=broker: its.pid))  # type: ignore[misc]  # mypy cannot infer a default
            self._give_clocks()
            for number, broker in enumerate(self.brokers.brokers):
                self._fronts[number].target = broker.port
                if self.is_secure:
                    listeners = f"PLAINTEXT://127.0.0.1:{broker.port}"
                    inner = self._inner[number].target
                    broker.settings["listeners"] = f"{listeners},INNER://127.0.0.1:{inner}"
            stack.callback(self.brokers.kill_all)
            for number in range(BROKERS):
                self.brokers.start(number)
            if self._backups is not None:
                self._backups.take_first()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start_zookeeper(self, stack: ExitStack) -> None:
        if self.mounts:
            for number in range(1, BROKERS + 1):
                self.zookeeper_disks.append(MountedDisk(self.folder / f"zookeeper-{number}"))
        self.zookeeper = Ensemble(self.folder, BROKERS)
        self._backups = Backups(self.zookeeper, self.folder / "backups")
        stack.callback(self.zookeeper.stop)
        self.zookeeper.start()
        for ways in self._ways:
            ways.extend(self._gates.gate(server.port) for server in self.zookeeper.servers)

    def _give_clocks(self) -> None:
        library = build_library(self.folder)
        if library is not None:
            for number, broker in enumerate(self.brokers.brokers):
                clock = Clock(library, self.folder / f"clock-{number}")
                broker.environment |= clock.environment
                self.clocks.append(clock)

    def _security(self) -> dict[str, str]:
        """The settings of brokers that log in at each other; none if the world is not secure."""
        if not self.is_secure:
            return {}
        self.folder.mkdir(parents=True, exist_ok=True)
        login = plain_users(broker="inner").replace(";", ' username="broker" password="inner";')
        return {
            **Certificates(self.folder).broker_config(),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:SASL_SSL",
            "inter.broker.listener.name": "INNER",
            "listener.name.inner.sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.inner.plain.sasl.jaas.config": login,
            # Sessions end while faults happen, and brokers authenticate again.
            "connections.max.reauth.ms": "20000",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:broker;User:ANONYMOUS",
        }

    def _settings_of(self, number: int) -> dict[str, str]:
        advertised = f"PLAINTEXT://127.0.0.1:{self._fronts[number].port}"
        if self.is_secure:
            advertised += f",INNER://127.0.0.1:{self._inner[number].port}"
        settings = {"advertised.listeners": advertised}
        if self.has_zookeeper:
            hosts = ",".join(f"127.0.0.1:{gate.port}" for gate in self._ways[number])
            settings["ottla.store"] = f"zookeeper://{hosts}/faults"
        return settings

    def _close_disks(self) -> None:
        for disk in (*self.disks, *self.zookeeper_disks):
            disk.close(self.keep)

    # Looking ------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return ",".join(f"127.0.0.1:{gate.port}" for gate in self._fronts)

    def broker(self, number: int) -> BrokerProcess:
        """One broker's process."""
        return self.brokers.brokers[number]

    @property
    def backups(self) -> Backups:
        """The backups of ZooKeeper's data."""
        assert self._backups is not None
        return self._backups

    def server(self, number: int) -> ZooKeeperServer:
        """One of ZooKeeper's servers, counted from 0."""
        assert self.zookeeper is not None
        return self.zookeeper.servers[number]

    def look(self, topic: str = "") -> MetadataResponse | None:
        """What a broker that answers says of a topic."""
        for broker in self.brokers.brokers:
            try:
                return self.brokers.metadata(topic, of=broker)
            except UNREACHABLE:
                continue
        return None

    def controller(self) -> int:
        """The broker that is the controller now; -1 if nobody says."""
        found = self.look()
        return -1 if found is None else found.controller_id

    def leader(self, topic: str, index: int) -> int:
        """Who leads a partition; -1 if nobody says."""
        found = self.look(topic)
        parts = [] if found is None else found.topics[0].partitions
        return next((each.leader_id for each in parts if each.partition_index == index), -1)

    def zookeeper_leader(self) -> int:
        """The number of the server that leads the quorum; 0 while none does."""
        modes = [self.server(number).mode() for number in range(BROKERS)]
        return modes.index("leader") if "leader" in modes else 0

    def not_in_sync(self, topics: Iterable[str]) -> str:
        """What keeps some broker from saying that all replicas are in sync; empty if nothing."""
        # One question to each broker: frequent questions take time from what is measured.
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in topics],
            allow_auto_topic_creation=False,
        )
        for number, broker in enumerate(self.brokers.brokers):
            try:
                with Connection(broker.bootstrap) as connection:
                    found = connection.ask(request, MetadataResponse, METADATA_VERSION)
            except UNREACHABLE as problem:
                return f"broker {number}: {problem!r}"
            if len(found.brokers) != BROKERS:
                known = sorted(each.node_id for each in found.brokers)
                return f"broker {number} knows only of {known}"
            for topic in found.topics:
                if topic.error_code:
                    return f"{topic.name}: error {topic.error_code}, says broker {number}"
                for each in topic.partitions:
                    if each.leader_id < 0 or len(each.isr_nodes) != len(each.replica_nodes):
                        return (
                            f"{topic.name}-{each.partition_index}: leader {each.leader_id}, in "
                            f"sync {each.isr_nodes}, says broker {number}"
                        )
        return ""

    def until_in_sync(self, topics: Iterable[str], seconds: float = IN_SYNC_WITHIN_SECONDS) -> None:
        """Wait until all replicas are in sync; raises TimeoutError."""
        wanted = list(topics)
        problem = ""

        def is_in_sync() -> bool:
            nonlocal problem
            for number in range(BROKERS):
                if self.gave_up_starting(number):
                    self.revive_broker(number)
            problem = self.not_in_sync(wanted)
            return not problem

        try:
            until(is_in_sync, "all are in sync", seconds, LOOK_AGAIN_SECONDS)
        except TimeoutError as late:
            raise TimeoutError(f"{late}; {problem}") from None

    def processes(self) -> list[int]:
        """The ids of the brokers and ZooKeeper servers that run."""
        found = []
        for broker in self.brokers.brokers:
            with suppress(BrokerError):  # it has ended
                found.append(broker.pid)
        for server in self.zookeeper.servers if self.zookeeper is not None else ():
            with suppress(ProcessLookupError):
                found.append(server.process_id)
        return found

    # Hurting brokers ----------------------------------------------------------------------

    def kill(self, number: int) -> None:
        """kill -9."""
        self.broker(number).kill()
        self.brokers.declare_dead(number)

    def stop(self, number: int) -> None:
        """Ask a broker to end, and wait for it."""
        self.broker(number).stop()

    def start(self, number: int) -> None:
        """Start a broker if it does not run; it may take its time."""
        if not self.broker(number).is_running:
            self.broker(number).launch()

    def pause(self, number: int) -> None:
        """SIGSTOP."""
        os.kill(self.broker(number).pid, signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """SIGCONT."""
        os.kill(self.broker(number).pid, signal.SIGCONT)

    def set_front(self, number: int, mode: Mode) -> None:
        """Cut clients and other brokers off from a broker, or no longer."""
        self._fronts[number].set(mode)
        if self.is_secure:
            self._inner[number].set(mode)

    def set_store(self, number: int, mode: Mode) -> None:
        """Cut a broker off from ZooKeeper, or no longer."""
        for gate in self._ways[number]:
            gate.set(mode)

    def step_clock(self, number: int, seconds: float) -> None:
        """Set a broker's wall clock to the true time plus so many seconds."""
        if self.clocks:
            self.clocks[number].step(seconds)

    def empty_disk(self, number: int) -> None:
        """Remove all data of a broker that does not run."""
        for path in self.broker(number).data.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def remove_folders(self, number: int, index: int) -> list[str]:
        """Remove the folder of one partition of each topic of a broker that does not run."""
        folders = sorted(self.broker(number).data.glob(f"*-{index}"))
        for folder in folders:
            shutil.rmtree(folder)
        return [folder.name for folder in folders]

    # Hurting ZooKeeper --------------------------------------------------------------------

    def set_server(self, number: int, mode: Mode) -> None:
        """Cut all brokers off from one of ZooKeeper's servers, or no longer."""
        for ways in self._ways:
            ways[number].set(mode)

    def revive_server(self, number: int) -> None:
        """See that a server of ZooKeeper serves, whether it has ended or not."""
        server = self.server(number)
        try:
            until(
                lambda: not server.is_running or server.mode() is not None,
                "it serves",
                SERVES_AGAIN_WITHIN_SECONDS,
            )
        except TimeoutError:
            pass
        if server.mode() is None:
            server.kill()
            try:
                server.restart()
            except DamagedData:
                self._damaged.add(number)

    def replace_damaged_servers(self) -> list[int]:
        """Do what an operator does with servers of ZooKeeper that cannot read their own data."""
        replaced = sorted(self._damaged)
        for number in replaced:
            others = [self.server(other) for other in range(BROKERS) if other not in self._damaged]
            for other in others:
                other.wait_until_up()
            self.server(number).replace()
            self._damaged.remove(number)
        return replaced

    def gave_up_starting(self, number: int) -> bool:
        """Whether a broker has ended, as it should, because it was cut off while it started."""
        broker = self.broker(number)
        last = broker.last_words().splitlines()[-1]
        return not broker.is_running and last.startswith(NO_ZOOKEEPER_AT_START)

    def revive_broker(self, number: int) -> bool:
        """Start a broker that has ended; True if it had."""
        had_ended = not self.broker(number).is_running
        if had_ended:
            self.brokers.declare_dead(number)
            self.start(number)
        return had_ended
