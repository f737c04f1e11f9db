"""Puts the simulated world in the place of the operating system's.

Rules kept here:
1. What is replaced stands in this file, each with what it stands for. Everything else of the
   brokers is what runs in production.
2. The process is for simulations alone: nothing is put back.
3. Randomness of every kind comes from the seed: the system's, that of modules with a generator of
   their own, and identifiers.
"""

from __future__ import annotations

import fcntl
import gc
import os
import random
import sys
import time
import uuid
from collections.abc import Callable, MutableMapping
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import structlog

import ottla.broker.logs.log_cleaner
import ottla.broker.logs.recovery_process
import ottla.broker.logs.storage
import ottla.metadata.stores.zookeeper_session as zookeeper_session
import ottla.server.keep_alive
import ottla.server.run
import ottla.server.server
from ottla.log.storage.files import Files
from ottla.simulation.children import SimulatedChild
from ottla.simulation.disk import SimulatedDisk, simulated_init
from ottla.simulation.loop import SimulatedLoop
from ottla.simulation.network import Network
from ottla.simulation.process import PROCESS, WALL_CLOCK_AT_START, current_process
from ottla.simulation.transport import create_connection
from ottla.simulation.zookeeper_client import SimulatedKazoo
from ottla.simulation.zookeeper_server import ZooKeeperServer

REAL_MONOTONIC = time.monotonic
REAL_SENDFILE = os.sendfile


class _NoThread:
    """The session's watchdog: a simulated loop never hangs, and a pause is the nemesis's."""

    def __init__(self, target: Callable[[], None], name: str, daemon: bool = False) -> None:
        self._target = target
        self._name = name

    def start(self) -> None:
        if self._name == "ottla-store-stop":
            self._target()

    def join(self) -> None:
        """It has ended."""


class _NoTimer:
    """What ends a close that hangs: none does."""

    def __init__(self, seconds: float, function: Callable[..., None], args: object) -> None:
        """Nothing."""

    def start(self) -> None:
        """Nothing."""

    def cancel(self) -> None:
        """Nothing."""


def install(
    loop: SimulatedLoop,
    network: Network,
    server: ZooKeeperServer,
    chance: Random,
    log: Callable[[Any, str, MutableMapping[str, Any]], str],
) -> None:
    """Replace it all, for the rest of this process."""
    _install_time(loop)
    _install_randomness(chance)
    _install_disk()
    _install_network(loop, network)
    _install_zookeeper(server, network)
    SimulatedChild.chance = Random(chance.random())
    for module in (ottla.broker.logs.log_cleaner, ottla.broker.logs.recovery_process):
        _replace(module, "Child", SimulatedChild)
    structlog.reset_defaults()
    structlog.configure(
        processors=[structlog.processors.format_exc_info, log],
        logger_factory=structlog.ReturnLoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _replace(module: ModuleType, name: str, simulated: object) -> None:
    """Replace a name of a module, which must be there."""
    assert hasattr(module, name), f"{module.__name__} has no {name}"
    setattr(module, name, simulated)


def _install_time(loop: SimulatedLoop) -> None:
    """Clocks: elapsed time is the loop's; the wall clock differs from host to host."""
    seconds = loop.time

    def wall() -> float:
        process = PROCESS.get()
        offset = 0.0 if process is None else process.wall_offset
        return WALL_CLOCK_AT_START + seconds() + offset

    for name, simulated in {
        "time": wall,
        "time_ns": lambda: int(wall() * 1_000_000_000),
        "monotonic": seconds,
        "monotonic_ns": lambda: int(seconds() * 1_000_000_000),
        "perf_counter": seconds,
        "perf_counter_ns": lambda: int(seconds() * 1_000_000_000),
        "clock_gettime": lambda clock: seconds(),
        "thread_time": lambda: 0.0,
    }.items():
        real = getattr(time, name)
        setattr(time, name, simulated)
        _replace_where_imported(real, simulated)


def _replace_where_imported(real: object, simulated: object) -> None:
    """Replace it in modules that have imported it by name."""
    for module in _modules():
        for name, value in list(vars(module).items()):
            if value is real:
                setattr(module, name, simulated)


def _modules() -> list[Any]:
    """Ottla's modules, in the order of their names."""
    return [module for name, module in sorted(sys.modules.items()) if name.startswith("ottla")]


def _install_randomness(chance: Random) -> None:
    """The system's randomness, and the generators that modules have made for themselves."""
    seed = chance.random()
    real = uuid.uuid4
    os.urandom = chance.randbytes
    random._urandom = chance.randbytes  # type: ignore[attr-defined]  # SystemRandom uses it
    uuid.uuid4 = lambda: uuid.UUID(int=chance.getrandbits(128), version=4)
    _replace_where_imported(real, uuid.uuid4)
    for module in _modules():
        for name, value in sorted(vars(module).items()):
            if type(value) is Random:  # by its name: others may have been imported, or not
                value.seed(f"{seed} {module.__name__}.{name}")
    random.seed(seed)
    gc.disable()


def _install_disk() -> None:
    """File calls of the log go to the process's disk; a folder's lock goes with its process."""

    def disk() -> SimulatedDisk | None:
        process = PROCESS.get()
        return None if process is None else process.disk

    Files.__init__ = simulated_init(disk)  # type: ignore[method-assign, assignment]  # on purpose
    _replace(fcntl, "flock", lambda fd, operation: None)
    _replace(ottla.broker.logs.storage, "_boot_id", lambda: current_process().boot_id)


def _install_network(loop: SimulatedLoop, network: Network) -> None:
    """Sockets of the server, and connections that are opened with the loop."""

    def bind(listener: Any, among: object) -> list[Any]:
        return [network.bind(listener.port)]

    def sendfile(out: int, file: int, position: int, count: int) -> int:
        if out < 0:
            return network.send_file(out, file, position, count)
        return REAL_SENDFILE(out, file, position, count)

    async def connect(factory: Any, host: str, port: int, **options: object) -> Any:
        return await create_connection(network, factory, port)

    _replace(ottla.server.server, "bind", bind)
    _replace(ottla.server.server, "_gone", lambda connection: network.is_gone(connection.fileno()))
    _replace(ottla.server.run, "check_free", lambda config: None)
    _replace(os, "sendfile", sendfile)
    loop.create_connection = connect  # type: ignore[method-assign, assignment]  # on purpose


def _install_zookeeper(server: ZooKeeperServer, network: Network) -> None:
    """kazoo's client and its threads."""

    def make_client(
        address: object, timeout: float, complaints: object, negotiated: Callable[[float], None]
    ) -> SimulatedKazoo:
        return SimulatedKazoo(server, network, timeout, negotiated)

    _replace(zookeeper_session, "make_client", make_client)
    _replace(zookeeper_session, "drop_connection", lambda client: client.drop())
    _replace(zookeeper_session, "Thread", _NoThread)
    _replace(zookeeper_session, "Timer", _NoTimer)


def memory_folder() -> Path:
    """Where disks lie: in memory, where the system has such a folder."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() else Path("/tmp")
