"""Logs that the recovery process cannot recover on a full disk: recovered in memory, read, and
deleted."""

import asyncio
import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from ottla.broker.broker_server import BrokerServer
from ottla.broker.logs import log_loader
from ottla.broker.logs.recovery_process import RecoveryProcess
from ottla.broker.metadata.topics import delete_topic
from ottla.log.recovery import recovery
from ottla.log.storage.folder import CLEAN_SHUTDOWN
from ottla.wire.errors import ErrorCode
from testkit.waiting import stretched
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import killed, running, topic, write
from tests.broker.test_log_loader import Unclean, end_offsets, error_of

INDEX = f"{0:020d}.index"
SEGMENT = f"{0:020d}.log"
NO_ROOM = {"error": "No space left on device", "errno": errno.ENOSPC}


@pytest.fixture
def unclean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Unclean:
    """Three topics after a kill; the disk is full for the recovery process."""

    async def refuse(_: RecoveryProcess, __: object) -> dict[str, Any]:
        return dict(NO_ROOM)

    unclean = Unclean(tmp_path, monkeypatch)
    monkeypatch.setattr(RecoveryProcess, "recover", refuse)
    return unclean


class Gate:
    """Holds recoveries up, in whatever thread they are, until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()
        self.done: list[str] = []
        recover = recovery.recover

        def wait(directory: Path, *arguments: Any, **named: Any) -> object:
            self.reached.set()
            assert self.open.wait(stretched(20))
            result = recover(directory, *arguments, **named)
            self.done.append(directory.name)
            return result

        monkeypatch.setattr(log_loader, "recover", wait)


def are_open(node: BrokerServer) -> Callable[[], bool]:
    return lambda: not any(error_of(node, name) for name in "abc")


def test_they_are_read_and_written_and_flushed_when_there_is_room(unclean: Unclean) -> None:
    async def live() -> None:
        async with running(unclean.folder) as node:
            with capture_logs() as said:
                await until(are_open(node))
            assert "partition is offline" not in [line["event"] for line in said]
            assert [end_offsets(node, name) for name in "abc"] == [[10]] * 3
            partition = node.partitions.find("a", 0)
            found = partition.log.read(0, 1 << 20, 10, whole_first=True)
            assert found is not None
            assert found.size == partition.log.size
            found.file.unpin()
            assert partition.log.recovery_point == 0
            assert (unclean.folder / "a-0" / INDEX).stat().st_size == 0
            write(partition)
            await partition.flush()
            assert partition.log.recovery_point == 11

    asyncio.run(live())
    assert (unclean.folder / CLEAN_SHUTDOWN).exists()


def test_their_files_are_the_brokers_afterwards(unclean: Unclean) -> None:
    """Open files are counted together, and a full disk is reported."""

    async def live() -> None:
        async with running(unclean.folder) as node:
            await until(are_open(node))
            log = node.partitions.find("a", 0).log
            before = len(node.file_cache)
            log.segments.active.file.descriptor()
            assert (log.local.cache, len(node.file_cache)) == (node.file_cache, before + 1)
            assert log.files.on_full == node.full_disk.refused

    asyncio.run(live())


def test_a_torn_tail_is_truncated(unclean: Unclean) -> None:
    with (unclean.folder / "a-0" / SEGMENT).open("ab") as log:
        log.write(b"\xff" * 50)

    async def live() -> None:
        with capture_logs() as said:
            async with running(unclean.folder) as node:
                await until(are_open(node))
                assert end_offsets(node, "a") == [10]
        (cut,) = (
            line
            for line in said
            if line["event"] == "log has a corrupt or incomplete tail; truncated"
        )
        assert (cut["partition"], cut["bytes"]) == ("a-0", 50)

    asyncio.run(live())


def test_a_damaged_log_is_offline_and_the_others_are_not(unclean: Unclean) -> None:
    (unclean.folder / "b-0" / "leader-epoch-checkpoint").write_bytes(b"\xff\xfe")

    async def live() -> None:
        async with running(unclean.folder) as node:
            await until(lambda: not error_of(node, "a") and not error_of(node, "c"))
            assert error_of(node, "b") == ErrorCode.KAFKA_STORAGE_ERROR

    asyncio.run(live())


def test_the_loop_continues_meanwhile(unclean: Unclean, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)

    async def live() -> None:
        async with running(unclean.folder) as node:
            await until(gate.reached.is_set)
            write(await topic(node, "new"))
            assert gate.done == []
            gate.open.set()
            await until(are_open(node))

    asyncio.run(live())


def test_a_topic_that_is_deleted_meanwhile_is_not_served(
    unclean: Unclean, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)

    async def live() -> None:
        async with running(unclean.folder) as node:
            await until(gate.reached.is_set)
            deleting = asyncio.create_task(delete_topic(node.metadata, "a"))
            await until(lambda: "a" not in node.image.topics)
            # Someone still works in the folder, so it is still there.
            assert not deleting.done()
            assert (unclean.folder / "a-0").exists()
            gate.open.set()
            await deleting
            assert "a-0" in gate.done
            write(await topic(node, "a"))
            assert end_offsets(node, "a") == [1]
            await until(are_open(node))
            assert len(node.file_cache) <= 3

    asyncio.run(live())


def test_a_stop_waits_for_the_thread_and_is_not_clean(
    unclean: Unclean, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)

    async def live() -> None:
        async with running(unclean.folder):
            await until(gate.reached.is_set)
            asyncio.get_running_loop().call_later(0.1, gate.open.set)
        assert gate.done == ["a-0"]

    asyncio.run(live())
    assert not (unclean.folder / CLEAN_SHUTDOWN).exists()


def test_what_was_recovered_in_memory_survives_another_kill(
    unclean: Unclean, tmp_path: Path
) -> None:
    async def live() -> None:
        async with running(unclean.folder) as node:
            await until(are_open(node))
            killed(unclean.folder, tmp_path / "again")

    async def again() -> None:
        async with running(tmp_path / "again") as node:
            await until(are_open(node))
            assert [end_offsets(node, name) for name in "abc"] == [[10]] * 3

    asyncio.run(live())
    asyncio.run(again())
