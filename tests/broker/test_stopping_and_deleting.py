"""What a stop and the deletion of a topic leave on the disk, and what they cost."""

import asyncio
import errno
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ottla.broker.broker_server import BrokerServer
from ottla.broker.logs.closing import closed_at_once
from ottla.broker.metadata.stores import METADATA_FILE
from ottla.broker.metadata.topics import delete_topic
from ottla.broker.scheduling import flusher
from ottla.broker.start_error import StartError
from ottla.log import flush
from ottla.log.flush import Flush
from ottla.log.flusher import SEGMENTS_IN_ONE_FLUSH
from ottla.log.storage.folder import CLEAN_SHUTDOWN, RECOVERY_POINTS
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import new_node, running, topic, write


class SyncedFolders:
    """Counts how often each folder is synced."""

    def __init__(self, node: BrokerServer) -> None:
        self.count: Counter[str] = Counter()
        self._paths: dict[int, str] = {}
        node.files.open = self._open
        node.files.fsync = self._fsync

    def _open(self, path: str, flags: int, mode: int) -> int:
        fd = os.open(path, flags, mode)
        self._paths[fd] = path
        return fd

    def _fsync(self, fd: int) -> None:
        os.fsync(fd)
        path = self._paths[fd]
        if os.path.isdir(path):
            self.count[path] += 1


def test_a_log_of_more_segments_than_one_flush_covers_is_closed_clean(tmp_path: Path) -> None:
    segments = SEGMENTS_IN_ONE_FLUSH * 2 + 5

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "a")
            for _ in range(segments):
                write(partition)
                partition.log.roll()
            assert partition.log.needs_several_flushes
        assert (tmp_path / CLEAN_SHUTDOWN).exists()
        assert node.folder.read_checkpoint(RECOVERY_POINTS) == {("a", 0): segments}
        async with running(tmp_path) as node:
            assert node.partitions.find("a", 0).log.end_offset == segments

    asyncio.run(live())


def test_a_stop_syncs_each_folder_once(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, "a", partitions=5)
            for partition in node.partitions:
                write(partition)
            synced = SyncedFolders(node)
        assert {f"{tmp_path}/a-{index}" for index in range(5)} < set(synced.count)
        assert all(synced.count[f"{tmp_path}/a-{index}"] == 1 for index in range(5))
        # Beside the new folders: three checkpoints and the mark of the clean stop.
        assert synced.count[str(tmp_path)] <= 5

    asyncio.run(live())


@pytest.mark.parametrize(("open_logs", "together"), [(896, 16), (1 << 20, 100)])
def test_a_stop_closes_as_many_logs_together_as_may_have_files_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_logs: int, together: int
) -> None:
    """Each group waits for the disk: thousands of small ones would take a stop many seconds."""
    most = at_once = 0
    really_run = flush.run_together

    def run(flushes: Sequence[Flush]) -> None:
        nonlocal most, at_once
        at_once += len(flushes)
        most = max(most, at_once)
        really_run(flushes)
        at_once -= len(flushes)

    async def live() -> None:
        async with running(tmp_path) as node:
            node.file_cache.limit = open_logs
            await topic(node, "a", partitions=100)
            for partition in node.partitions:
                write(partition)
            # One thread, so that what is under way is what was begun together.
            monkeypatch.setattr(flusher, "THREADS", 1)
            monkeypatch.setattr(flusher, "TOGETHER", 1000)
            monkeypatch.setattr(flusher, "run_together", run)
        assert (tmp_path / CLEAN_SHUTDOWN).exists()

    asyncio.run(live())
    assert most == together


@pytest.mark.parametrize(
    ("open_logs", "at_once"), [(64, 16), (896, 16), (3584, 64), (14_336, 256), (1 << 20, 256)]
)
def test_fewer_logs_are_closed_together_where_few_files_may_be_open(
    open_logs: int, at_once: int
) -> None:
    assert closed_at_once(open_logs) == at_once


def test_a_data_folder_that_cannot_be_synced_is_no_clean_stop(tmp_path: Path) -> None:
    def broken(_: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async def live() -> None:
        node = new_node(tmp_path)
        await node.open()
        await node.start({"PLAINTEXT": 1})
        partition = await topic(node, "a")
        write(partition)
        with capture_logs() as said, pytest.MonkeyPatch.context() as patched:
            patched.setattr(type(node.files), "sync_directory", lambda _, path: broken(path))
            await node.close()
        assert "partition is offline" in [line["event"] for line in said]
        assert not (tmp_path / CLEAN_SHUTDOWN).exists()

    asyncio.run(live())


def test_partitions_without_their_metadata_are_not_served_as_an_empty_broker(
    tmp_path: Path,
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            write(await topic(node, "a"))
        for name in list(tmp_path.glob(f"{METADATA_FILE}*")):  # noqa: ASYNC240 - a test may wait
            name.unlink()
        with pytest.raises(StartError, match=f"its {METADATA_FILE} is missing or empty"):
            await new_node(tmp_path).open()
        assert not list(tmp_path.glob(f"{METADATA_FILE}*"))  # noqa: ASYNC240 - a test may wait

    asyncio.run(live())


def test_partitions_with_empty_metadata_are_not_served_either(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            write(await topic(node, "a"))
        empty = tmp_path / "empty"
        async with running(empty):
            pass
        with closing(sqlite3.connect(empty / METADATA_FILE)) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema")]
            assert "documents" in tables
            database.execute("DELETE FROM documents")
            database.commit()
        shutil.copy(empty / METADATA_FILE, tmp_path / METADATA_FILE)
        with pytest.raises(StartError, match=f"its {METADATA_FILE} is missing or empty"):
            await new_node(tmp_path).open()

    asyncio.run(live())


def test_a_folder_that_holds_nothing_yet_needs_no_metadata(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            cluster_id = node.cluster_id
        for name in list(tmp_path.glob(f"{METADATA_FILE}*")):  # noqa: ASYNC240 - a test may wait
            name.unlink()
        async with running(tmp_path) as node:
            assert node.cluster_id == cluster_id

    asyncio.run(live())


def folders(path: Path) -> list[str]:
    """The partitions' folders that are not marked as deleted."""
    return [each.name for each in path.glob("a-*") if not each.name.endswith("-delete")]


def test_deleting_many_partitions_gives_way_to_clients(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, "a", partitions=300)
            deleting = asyncio.create_task(delete_topic(node.metadata, "a"))
            seen = set()
            while not deleting.done():
                seen.add(len(folders(tmp_path)))
                await asyncio.sleep(0)
            await deleting
            assert folders(tmp_path) == []
            assert len(seen) > 4  # others had their turn between

    asyncio.run(live())


def test_a_stop_does_not_leave_half_of_a_topic(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            await topic(node, "a", partitions=300)
            deleting = asyncio.create_task(delete_topic(node.metadata, "a"))
            await until(lambda: len(folders(tmp_path)) < 300)
            assert folders(tmp_path)
        await asyncio.gather(deleting, return_exceptions=True)
        assert folders(tmp_path) == []

    asyncio.run(live())
