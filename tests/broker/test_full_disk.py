"""A full disk: one line when it begins and one when it ends, however much is refused meanwhile."""

import asyncio
import errno
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ottla.broker.broker_server import BrokerServer
from ottla.broker.logs import full_disk, log_loader, log_manager
from ottla.log.storage.files import Bytes
from ottla.log.storage.folder import START_OFFSETS
from ottla.wire.errors import ErrorCode, KafkaError
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import running, topic, write

BEGINS, ENDS = "disk full; refusing writes", "disk space available again; accepting writes"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often."""
    monkeypatch.setattr(full_disk, "LOOK_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(log_manager, "FLUSH_AGAIN_MS", 1)
    monkeypatch.setattr(log_loader, "TRY_AGAIN_SECONDS", 0.01)


def full(_: int, __: Bytes, ___: int) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def half(fd: int, data: Bytes, position: int) -> int:
    """As the last write that a disk takes some of."""
    if len(data) < 2:
        return full(fd, data, position)
    return os.pwrite(fd, memoryview(data)[: len(data) // 2], position)


def looks(node: BrokerServer, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows by one whenever the node has looked whether there is room."""
    seen: list[object] = []
    looked = node.full_disk._looked

    def note(looking: asyncio.Future[None]) -> None:
        looked(looking)
        seen.append(looking)

    monkeypatch.setattr(node.full_disk, "_looked", note)
    return seen


def refused(node: BrokerServer, name: str) -> bool:
    try:
        write(node.partitions.find(name, 0))
    except KafkaError as problem:
        return problem.code == ErrorCode.KAFKA_STORAGE_ERROR
    return False


@pytest.mark.parametrize("pwrite", [full, half])
def test_what_clients_are_refused_is_reported_once_and_so_is_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pwrite: object
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            for name in ("a", "b"):
                await topic(node, name)
            seen = looks(node, monkeypatch)
            with capture_logs() as said:
                with monkeypatch.context() as patched:
                    patched.setattr(node.files, "pwrite", pwrite)
                    for number in range(1, 5):
                        assert refused(node, "a")
                        assert refused(node, "b")
                        await until(lambda: len(seen) >= number)  # noqa: B023 (awaited here)
                    assert [line["event"] for line in said] == [BEGINS]
                await until(lambda: len(said) == 2)
            begins, ends = said
            assert (begins["partition"], begins["log_level"]) == ("a-0", "error")
            assert begins["data"] == str(tmp_path)
            assert (ends["event"], ends["refused"]) == (ENDS, 8)
            assert not refused(node, "a")
            assert not (tmp_path / full_disk.PROBE).exists()

    asyncio.run(live())


def test_a_disk_that_stays_full_without_a_client_is_not_said_to_have_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, "a")
            seen = looks(node, monkeypatch)
            with capture_logs() as said:
                with monkeypatch.context() as patched:
                    patched.setattr(node.files, "pwrite", full)
                    assert refused(node, "a")
                    await until(lambda: len(seen) >= 4)
                    assert [line["event"] for line in said] == [BEGINS]
                await until(lambda: len(said) == 2)

    asyncio.run(live())


def test_flushes_and_openings_that_are_tried_again_and_again_are_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    def refuse(path: str, flags: int, mode: int) -> int:
        nonlocal tries
        if flags & os.O_CREAT:
            tries += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.open(path, flags, mode)

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a", flush_ms="1")
            write(partition)
            with capture_logs() as said:
                with monkeypatch.context() as patched:
                    patched.setattr(node.files, "open", refuse)
                    with pytest.raises(KafkaError):
                        await topic(node, "b")
                    await until(lambda: tries > 30)
                    assert len(said) == 2
                    assert {line["event"] for line in said} == {BEGINS, "partition is offline"}
                await until(lambda: len(said) == 4)
                ended = {line["event"] for line in said[2:]}
                assert ended == {"partition is online again", ENDS}
            await until(lambda: partition.log.recovery_point == 1)

    asyncio.run(live())


def test_a_checkpoint_that_finds_a_full_disk_gets_what_was_put_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = tmp_path / full_disk.RESERVE

    def full_but_for_the_reserve(fd: int, data: Bytes, position: int) -> int:
        return full(fd, data, position) if reserve.exists() else os.pwrite(fd, data, position)

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a")
            write(partition, 3)
            assert reserve.stat().st_size == full_disk.RESERVE_BYTES
            with monkeypatch.context() as patched:
                patched.setattr(node.files, "pwrite", full_but_for_the_reserve)
                with pytest.raises(OSError, match="No space"):
                    await node.log_manager.checkpoints.write_high_watermarks()
                assert reserve.exists()  # that one only saves work
                partition.log.raise_start_offset(2)
                await node.log_manager.checkpoint_start_offsets()
                assert not reserve.exists()
                assert "a 0 2" in (tmp_path / START_OFFSETS).read_text()
                patched.setattr(node.files, "pwrite", full)
                partition.log.raise_start_offset(3)
                with pytest.raises(OSError, match="No space"):
                    await node.log_manager.checkpoint_start_offsets()
            await until(reserve.exists)  # there is room again

    asyncio.run(live())


def test_a_broken_disk_does_not_cost_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: int, __: Bytes, ___: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a")
            write(partition, 3)
            with monkeypatch.context() as patched:
                patched.setattr(node.files, "pwrite", broken)
                partition.log.raise_start_offset(2)
                with pytest.raises(OSError, match="Input/output"):
                    await node.log_manager.checkpoint_start_offsets()
            assert (tmp_path / full_disk.RESERVE).exists()

    asyncio.run(live())
