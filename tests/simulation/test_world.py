"""The simulated loop, network, disk and ZooKeeper, each by itself."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from kazoo.exceptions import BadVersionError  # type: ignore[import-untyped]  # it has no types

from ottla.log.storage.files import CREATE, Files
from ottla.simulation.disk import SECTOR, SimulatedDisk
from ottla.simulation.loop import LoopStuck, SimulatedLoop
from ottla.simulation.network import Endpoint, Network, SimulatedSocket
from ottla.simulation.process import SimulatedProcess
from ottla.simulation.shrink import shrunk
from ottla.simulation.zookeeper_server import Operation, ZooKeeperServer


@pytest.fixture
def loop() -> SimulatedLoop:
    return SimulatedLoop(Random(1))


def test_days_pass_at_once_and_timers_of_one_moment_run_in_their_order(loop: SimulatedLoop) -> None:
    ran: list[int] = []

    async def run() -> None:
        for number in range(5):
            loop.call_at(loop.time() + 86400, ran.append, number)
        await asyncio.sleep(86401)  # of simulated time: it is over at once

    loop.run_until_complete(run())
    assert ran == [0, 1, 2, 3, 4]


def test_a_loop_with_nothing_left_to_happen_says_so(loop: SimulatedLoop) -> None:
    with pytest.raises(LoopStuck, match="nothing is left"), suppress(RuntimeError):
        loop.run_until_complete(loop.create_future())


def test_a_dead_process_never_runs_again_and_a_paused_one_runs_later(loop: SimulatedLoop) -> None:
    ran: list[str] = []

    async def work(name: str) -> None:
        await asyncio.sleep(1)
        ran.append(name)

    async def run() -> None:
        dead, paused = SimulatedProcess("dead", "a"), SimulatedProcess("paused", "b")
        dead.start(work("dead"))
        paused.start(work("paused"))
        await asyncio.sleep(0.5)
        dead.alive = False
        paused.paused = True
        await asyncio.sleep(10)
        assert ran == []
        paused.paused = False
        for handle in paused.held:
            loop.run_again(handle)
        await asyncio.sleep(0.1)

    loop.run_until_complete(run())
    assert ran == ["paused"]


def with_connection(
    loop: SimulatedLoop, check: Callable[[Network, Endpoint, Endpoint], None]
) -> None:
    network = Network(loop, Random(2))

    async def run() -> None:
        server = SimulatedProcess("server", "host-1")
        client = SimulatedProcess("client", "host-2")
        server.call(lambda: network.bind(1).listen(5))
        mine = await client.start(network.connect(1))
        check(network, mine, mine.peer)

    loop.run_until_complete(run())


def received(end: Endpoint) -> bytes:
    buffer = memoryview(bytearray(1 << 20))
    parts = b""
    with suppress(BlockingIOError):
        while count := SimulatedSocket(end).recv_into(buffer):
            parts += bytes(buffer[:count])
    return parts


def test_bytes_arrive_in_order_and_a_cut_holds_them_back(loop: SimulatedLoop) -> None:
    ends: list[Endpoint] = []

    def begin(network: Network, one: Endpoint, other: Endpoint) -> None:
        ends.extend((one, other))
        network.cut("host-2", "host-1")
        for number in range(100):
            SimulatedSocket(one).send(b"%d," % number)

    with_connection(loop, begin)
    one, other = ends
    loop.run_until_complete(asyncio.sleep(10))
    assert received(other) == b""
    one.network.heal("host-2", "host-1")
    loop.run_until_complete(asyncio.sleep(1))
    assert received(other) == b"".join(b"%d," % number for number in range(100))


def test_what_sendfile_was_given_is_read_when_it_arrives(
    loop: SimulatedLoop, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old bytes")
    ends: list[Endpoint] = []

    def begin(network: Network, one: Endpoint, other: Endpoint) -> None:
        ends.append(other)
        with path.open("rb") as file:
            assert SimulatedSocket(one).send_file(file.fileno(), 0, 100) == 9
        path.write_bytes(b"new bytes")

    with_connection(loop, begin)
    loop.run_until_complete(asyncio.sleep(1))
    assert received(ends[0]) == b"new bytes"


def test_a_sender_waits_for_its_reader(loop: SimulatedLoop) -> None:
    def begin(network: Network, one: Endpoint, other: Endpoint) -> None:
        sent = SimulatedSocket(one).send(bytes(10 << 20))
        assert sent == one.room
        with pytest.raises(BlockingIOError):
            SimulatedSocket(one).send(b"more")

    with_connection(loop, begin)


def disk_with_files(folder: Path, seed: int) -> tuple[SimulatedDisk, Files]:
    disk = SimulatedDisk(folder, Random(seed))
    files = Files()
    disk.attach(files)
    return disk, files


@pytest.mark.parametrize("seed", range(10))
def test_a_power_loss_keeps_what_was_synced(tmp_path: Path, seed: int) -> None:
    disk, files = disk_with_files(tmp_path / "disk", seed)
    path = str(disk.root / "file")
    fd = files.open(path, CREATE, 0o600)
    files.write_fully(fd, b"a" * SECTOR * 4, 0)
    files.fsync(fd)
    files.sync_directory(str(disk.root))
    files.write_fully(fd, b"b" * SECTOR * 4, SECTOR * 4)
    disk.lose_power()
    found = Path(path).read_bytes()
    assert found[: SECTOR * 4] == b"a" * SECTOR * 4
    assert set(found[SECTOR * 4 :]) <= set(b"b\0")
    os.close(fd)
    disk.forget()


def test_a_power_loss_may_undo_a_rename_whose_folder_was_not_synced(tmp_path: Path) -> None:
    outcomes = set()
    for seed in range(20):
        disk, files = disk_with_files(tmp_path / str(seed), seed)
        files.write_file(str(disk.root / "old"), b"x", sync=True)
        files.sync_directory(str(disk.root))
        files.rename(str(disk.root / "old"), str(disk.root / "new"))
        disk.lose_power()
        outcomes.add(tuple(sorted(os.listdir(disk.root))))
        disk.forget()
    assert {("old",), ("new",)} <= outcomes


def test_a_full_disk_takes_nothing(tmp_path: Path) -> None:
    disk, files = disk_with_files(tmp_path / "disk", 1)
    disk.full = True
    with pytest.raises(OSError, match="No space left"):
        files.write_file(str(disk.root / "file"), b"x", sync=False)
    assert os.listdir(disk.root) == []
    disk.forget()


def test_a_multi_is_done_as_a_whole_or_not_at_all(loop: SimulatedLoop) -> None:
    server = ZooKeeperServer(loop)
    number = server.connect(0, 6.0, "host", lambda kind, path: None)
    server.execute(number, Operation("create", "/a", b"1"))
    before = server.snapshot()
    results = server.multi(
        number,
        [
            Operation("set", "/a", b"2"),
            Operation("create", "/b"),
            Operation("set", "/a", version=9),
        ],
    )
    assert isinstance(results[2], BadVersionError)
    assert server.nodes == before


def test_a_session_that_is_silent_expires_with_its_nodes_but_not_without_a_quorum(
    loop: SimulatedLoop,
) -> None:
    server = ZooKeeperServer(loop)
    fired: list[str] = []
    watcher = server.connect(0, 1000.0, "other", lambda kind, path: fired.append(path))
    number = server.connect(0, 3.0, "host", lambda kind, path: None)
    server.execute(number, Operation("create", "/mine", ephemeral=True))
    server.execute(watcher, Operation("exists", "/mine", watch=True))

    async def run() -> None:
        server.start()
        server.has_quorum = False
        await asyncio.sleep(60)
        assert "/mine" in server.nodes
        server.regain_quorum()
        await asyncio.sleep(2)
        assert "/mine" in server.nodes
        await asyncio.sleep(2)

    loop.run_until_complete(run())
    assert "/mine" not in server.nodes
    assert fired == ["/mine"]


def test_a_schedule_is_shrunk_to_the_faults_that_it_takes() -> None:
    def fails(without: frozenset[int]) -> bool:
        return not without & {7, 31}

    assert shrunk(64, fails) == [7, 31]
