"""The log cleaner on a real node, with real child processes."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ottla.broker.broker_server import BrokerServer
from ottla.broker.logs import log_cleaner as cleaner_module
from ottla.broker.logs import log_loader
from ottla.broker.logs.child import Child
from ottla.broker.logs.log_cleaner import RETRY_MS, LogCleaner
from ottla.broker.metadata.topics import create_topic, delete_topic
from ottla.broker.replicas.partition import Partition
from ottla.config import BrokerConfig
from ottla.log.config import LogConfig
from ottla.log.storage.folder import CLEANER_OFFSETS, RECOVERY_POINTS
from ottla.metadata.topics import NewTopic
from ottla.replication.follower import Following
from ottla.wire.fetch_answer import PartitionAnswer
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import killed, new_cleaner, running
from tests.log.compacting import keyed, offsets

SLOW = {"log.cleaner.io.max.bytes.per.second": "200000"}
"""A compaction of the logs of these tests takes a second then: there is time to interfere."""


@asynccontextmanager
async def cleaning(node: BrokerServer) -> AsyncIterator[LogCleaner]:
    """A cleaner that works on demand; it knows what an earlier one noted."""
    cleaner = new_cleaner(node)
    try:
        yield cleaner
    finally:
        await cleaner.stop()


async def dirty(node: BrokerServer, name: str, records: int = 300, keys: int = 5) -> Partition:
    """A partition with many values for a few keys, most of them in sealed segments."""
    configs = {"cleanup.policy": "compact", "file.delete.delay.ms": "0"}
    await create_topic(node.metadata, NewTopic(name, 1, configs=configs))
    partition = node.partitions.find(name, 0)
    write(node, partition, records, keys)
    return partition


def write(node: BrokerServer, partition: Partition, records: int = 300, keys: int = 5) -> None:
    now = node.now_ms()
    for at in range(records):
        partition.append(keyed((f"key-{at % keys}", "v" * 500), timestamp=now), now, 12)
        if at % 30 == 20:
            partition.log.roll(now)


def values(partition: Partition) -> list[int]:
    """Offsets of records in segments that are sealed."""
    sealed_below = partition.log.segments.active.base_offset
    return [offset for offset in offsets(partition.log) if offset < sealed_below]


def leftovers(partition: Partition) -> list[str]:
    return [
        path.name
        for path in partition.log.directory.iterdir()
        if path.name.endswith((".cleaned", ".swap"))
    ]


def test_a_dirty_log_is_compacted_and_noted(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as node, cleaning(node) as cleaner:
            partition = await dirty(node, "table")
            before = partition.log.size
            bound = partition.log.segments.active.base_offset
            assert await cleaner.clean_dirtiest_logs()
            assert values(partition) == list(range(bound - 5, bound))
            assert partition.log.size < before / 5
            assert node.folder.read_checkpoint(CLEANER_OFFSETS) == {("table", 0): bound}
            assert node.folder.read_checkpoint(RECOVERY_POINTS)["table", 0] >= bound
            assert not leftovers(partition)
            assert not await cleaner.clean_dirtiest_logs()
            await until(lambda: not [*partition.log.directory.glob("*.deleted")])

    asyncio.run(story())


def test_what_was_noted_counts_after_a_restart(tmp_path: Path) -> None:
    async def first() -> int:
        async with running(tmp_path) as node, cleaning(node) as cleaner:
            partition = await dirty(node, "table")
            await cleaner.clean_dirtiest_logs()
            return partition.log.segments.active.base_offset

    async def second(clean_to: int) -> None:
        async with running(tmp_path) as node, cleaning(node) as cleaner:
            partition = node.partitions.find("table", 0)
            assert not await cleaner.clean_dirtiest_logs()
            write(node, partition)
            assert await cleaner.clean_dirtiest_logs()
            noted = node.folder.read_checkpoint(CLEANER_OFFSETS)["table", 0]
            assert noted == partition.log.segments.active.base_offset > clean_to
            assert len(values(partition)) == 5

    asyncio.run(second(asyncio.run(first())))


def test_what_is_written_where_a_clean_log_was_cut_is_dirty(tmp_path: Path) -> None:
    """After an unclean election; also where the broker is killed before the next round."""

    async def first() -> None:
        async with running(tmp_path / "alive") as node, cleaning(node) as cleaner:
            partition = await dirty(node, "t")
            assert await cleaner.clean_dirtiest_logs()
            noted = node.folder.read_checkpoint(CLEANER_OFFSETS)["t", 0]
            assert noted > 10
            following = Following(99, partition.leader_epoch, may_lose=True)
            partition.follow(partition.leader_epoch, following)
            log = partition.log
            asked = following.fetch(log.end_offset, log.epochs, log.start_offset)
            answer = PartitionAnswer(0, 0, -1, 0, (partition.leader_epoch, 10), memoryview(b""))
            assert await node.replica_manager.fetched_data.take(partition, asked, answer)
            assert log.end_offset <= 10
            partition.lead(partition.leader_epoch, None)
            write(node, partition)
            await partition.flush()
            assert log.end_offset > noted
            killed(tmp_path / "alive", tmp_path / "dead")

    async def second() -> None:
        async with running(tmp_path / "dead") as node, cleaning(node) as cleaner:
            partition = node.partitions.find("t", 0)
            assert await cleaner.clean_dirtiest_logs()
            assert len(values(partition)) == 5, "one value for each key"

    asyncio.run(first())
    asyncio.run(second())


def test_only_compacted_logs_are_touched_and_the_dirtiest_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with running(tmp_path) as node, cleaning(node) as cleaner:
            half = await dirty(node, "half")
            assert await cleaner.clean_dirtiest_logs()
            write(node, half)
            new = await dirty(node, "new")
            plain = await dirty(node, "plain")
            plain.log.set_config(LogConfig())
            size = plain.log.size
            monkeypatch.setattr(cleaner_module, "LOGS_IN_A_ROUND", 1)
            assert await cleaner.clean_dirtiest_logs()
            assert len(values(new)) == 5
            assert len(values(half)) > 5
            assert await cleaner.clean_dirtiest_logs()
            assert len(values(half)) == 5
            assert not await cleaner.clean_dirtiest_logs()
            assert plain.log.size == size

    asyncio.run(story())


def test_several_logs_may_be_compacted_at_a_time(tmp_path: Path) -> None:
    async def story() -> None:
        settings = {"log.cleaner.threads": "2", **SLOW}
        async with running(tmp_path, settings) as node, cleaning(node) as cleaner:
            logs = [await dirty(node, f"table-{at}", 80) for at in range(3)]
            round_ = asyncio.create_task(cleaner.clean_dirtiest_logs())
            await until(lambda: sum(bool(leftovers(each)) for each in logs) == 2)
            assert await round_
            assert [len(values(each)) for each in logs] == [5, 5, 5]

    asyncio.run(story())


def test_no_threads_no_cleaning(tmp_path: Path) -> None:
    async def story() -> None:
        settings = {"log.cleaner.threads": "0"}
        async with running(tmp_path, settings) as node, cleaning(node) as cleaner:
            await dirty(node, "table")
            assert not await cleaner.clean_dirtiest_logs()

    asyncio.run(story())


def test_readers_and_writers_continue_meanwhile(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, SLOW) as node, cleaning(node) as cleaner:
            partition = await dirty(node, "table")
            round_ = asyncio.create_task(cleaner.clean_dirtiest_logs())
            appended = 0
            while not round_.done():
                write(node, partition, 1)
                appended += 1
                assert len({offset % 5 for offset in offsets(partition.log)}) == 5
                await asyncio.sleep(0)
            assert await round_
            assert appended > 10
            assert partition.log.end_offset == 300 + appended

    asyncio.run(story())


# Interference ---------------------------------------------------------------------------------


async def interfered(
    folder: Path, interfere: Callable[[BrokerServer, LogCleaner, Partition], Awaitable[None]]
) -> None:
    """Something happens to a log while it is compacted: the compaction is given up, quietly."""
    async with running(folder, SLOW) as node, cleaning(node) as cleaner:
        partition = await dirty(node, "table")
        round_ = asyncio.create_task(cleaner.clean_dirtiest_logs())
        await until(lambda: leftovers(partition))
        with capture_logs() as told:
            await interfere(node, cleaner, partition)
            assert not await round_
        assert not [each for each in told if each["log_level"] in ("warning", "error")]
        assert not leftovers(partition)
        assert node.folder.read_checkpoint(CLEANER_OFFSETS) == {}


def test_a_deleted_partition_is_left_at_once(tmp_path: Path) -> None:
    async def delete(node: BrokerServer, cleaner: LogCleaner, partition: Partition) -> None:
        await delete_topic(node.metadata, "table")
        cleaner.forget(partition)

    asyncio.run(interfered(tmp_path, delete))


def test_a_log_that_was_cut_is_not_overwritten(tmp_path: Path) -> None:
    async def cut(node: BrokerServer, cleaner: LogCleaner, partition: Partition) -> None:
        partition.log.truncate_to(7)

    asyncio.run(interfered(tmp_path, cut))


def test_a_log_that_lost_segments_to_retention_is_not_overwritten(tmp_path: Path) -> None:
    async def retain(node: BrokerServer, cleaner: LogCleaner, partition: Partition) -> None:
        partition.log.raise_start_offset(100)
        partition.log.maintain(node.now_ms())

    asyncio.run(interfered(tmp_path, retain))


def test_a_log_that_is_no_longer_compacted_is_left(tmp_path: Path) -> None:
    async def configure(node: BrokerServer, cleaner: LogCleaner, partition: Partition) -> None:
        partition.log.set_config(LogConfig())

    asyncio.run(interfered(tmp_path, configure))


def test_a_stop_ends_a_compaction_under_way(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as node:
            partition = await dirty(node, "table")
            size = partition.log.size
            settings = {"log.dirs": str(tmp_path), "log.cleaner.backoff.ms": "0", **SLOW}
            node.dynamic_config.current = BrokerConfig.from_static(settings)
            cleaner = new_cleaner(node)
            cleaner.start()
            await until(lambda: leftovers(partition))
            await cleaner.stop()
            assert not leftovers(partition)
            assert partition.log.size == size

    asyncio.run(story())


def test_a_partition_that_comes_after_one_of_its_name_is_all_dirty(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as node, cleaning(node) as cleaner:
            partition = await dirty(node, "table")
            assert await cleaner.clean_dirtiest_logs()
            await delete_topic(node.metadata, "table")
            cleaner.forget(partition)
            await until(lambda: node.folder.read_checkpoint(CLEANER_OFFSETS) == {})
            partition = await dirty(node, "table", records=1000)
            assert await cleaner.clean_dirtiest_logs()
            assert len(values(partition)) == 5

    asyncio.run(story())


def test_no_file_calls_clean_what_is_about_to_be_truncated(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as node, cleaning(node) as cleaner:
            log = (await dirty(node, "table")).log
            assert await cleaner.clean_dirtiest_logs()
            (clean_to,) = node.folder.read_checkpoint(CLEANER_OFFSETS).values()
            cut = clean_to - 3
            log.lower_recovery_point(cut)
            await node.log_manager.checkpoints.write_recovery_points()
            # A kill between the two leaves this one.
            assert node.folder.read_checkpoint(CLEANER_OFFSETS) == {("table", 0): cut}
            log.truncate_to(cut)
            await node.log_manager.checkpoint()
            assert node.folder.read_checkpoint(CLEANER_OFFSETS) == {}

    asyncio.run(story())


def test_a_topic_created_again_is_all_dirty_where_the_checkpoint_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is opened once the file has forgotten its predecessor."""
    monkeypatch.setattr(log_loader, "TRY_AGAIN_SECONDS", 0.05)

    async def story() -> None:
        async with running(tmp_path) as node, cleaning(node) as cleaner:
            await dirty(node, "table")
            assert await cleaner.clean_dirtiest_logs()
            rename = node.files.rename

            def refuse(old: str, new: str) -> None:
                if new.endswith(CLEANER_OFFSETS):
                    raise OSError(errno.ENOSPC, "No space left on device")
                rename(old, new)

            node.files.rename = refuse
            await delete_topic(node.metadata, "table")
            await create_topic(
                node.metadata, NewTopic("table", 1, configs={"cleanup.policy": "compact"})
            )
            assert node.partitions.get("table", 0) is None
            node.files.rename = rename
            await until(lambda: node.partitions.get("table", 0) is not None)
            assert node.folder.read_checkpoint(CLEANER_OFFSETS) == {}

    asyncio.run(story())


# Failures -------------------------------------------------------------------------------------


def damage(partition: Partition) -> None:
    path = partition.log.directory / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[300] ^= 1
    with path.open("r+b") as file:
        file.write(data)


def test_a_log_that_cannot_be_compacted_is_reported_once_and_does_not_stop_the_others(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with running(tmp_path) as node, cleaning(node) as cleaner:
            bad = await dirty(node, "bad")
            good = await dirty(node, "good")
            await bad.flush()
            damage(bad)
            with capture_logs() as told:
                assert await cleaner.clean_dirtiest_logs()
                assert not await cleaner.clean_dirtiest_logs()
            assert len(values(good)) == 5
            assert not leftovers(bad)
            [problem] = [each for each in told if each["log_level"] == "error"]
            assert problem["partition"] == "bad-0"
            assert "invalid CRC" in problem["reason"]
            gauges = {name: value for name, _, value in cleaner.gauges()}
            assert gauges["kafka_log_logcleanermanager_uncleanable_partitions_count"] == 1
            assert gauges["kafka_log_logcleanermanager_uncleanable_bytes"] == bad.log.size
            assert not bad.log.offline

    asyncio.run(story())


def test_a_child_that_was_killed_is_no_reason_to_give_a_log_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        start_child = Child.start
        started: list[Child] = []

        async def noted(module: str) -> Child:
            started.append(await start_child(module))
            return started[-1]

        monkeypatch.setattr(Child, "start", noted)
        async with running(tmp_path, SLOW) as node, cleaning(node) as cleaner:
            first = await dirty(node, "first", records=200)
            second = await dirty(node, "second", records=80)
            round_ = asyncio.create_task(cleaner.clean_dirtiest_logs())
            await until(lambda: leftovers(first) or leftovers(second))
            started[0].kill()
            assert await round_
            assert len(started) == 2
            assert not leftovers(first)
            assert not leftovers(second)
            assert sorted(len(values(each)) == 5 for each in (first, second)) == [False, True]
            assert not await cleaner.clean_dirtiest_logs(), "it is tried again later"
            later = node.elapsed_ms() + RETRY_MS + 1
            node.clock.elapsed_ms = lambda: later  # type: ignore[method-assign]  # time passes
            assert await cleaner.clean_dirtiest_logs()
            assert [len(values(each)) for each in (first, second)] == [5, 5]

    asyncio.run(story())


def test_a_full_disk_is_no_reason_to_give_a_log_up(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as node, cleaning(node) as cleaner:
            partition = await dirty(node, "table")
            rename = node.files.rename

            def full(old: str, new: str) -> None:
                if old.endswith(".cleaned"):
                    raise OSError(errno.ENOSPC, "No space left on device")
                rename(old, new)

            node.files.rename = full
            with capture_logs() as told:
                assert not await cleaner.clean_dirtiest_logs()
            assert [each["log_level"] for each in told] == ["warning"]
            assert not leftovers(partition)
            node.files.rename = rename
            later = node.elapsed_ms() + RETRY_MS + 1
            node.clock.elapsed_ms = lambda: later  # type: ignore[method-assign]  # time passes
            assert await cleaner.clean_dirtiest_logs()
            assert len(values(partition)) == 5

    asyncio.run(story())


def test_what_was_done_is_counted(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as node, cleaning(node) as cleaner:
            partition = await dirty(node, "table")
            bound = partition.log.segments.active.base_offset
            await cleaner.clean_dirtiest_logs()
            counters = {name: value for name, _, value in cleaner.counters()}
            assert counters["kafka_log_logcleaner_cleanings"] == 1
            assert counters["kafka_log_logcleaner_messages_read"] == bound
            assert counters["kafka_log_logcleaner_messages_written"] == 5
            gauges = {name: value for name, _, value in cleaner.gauges()}
            assert gauges["kafka_log_logcleanermanager_max_dirty_percent"] == 100
            assert 0 < gauges["kafka_log_logcleaner_cleaner_recopy_percent"] < 20
            assert 0 < gauges["kafka_log_logcleaner_max_buffer_utilization_percent"] < 1
            assert gauges["kafka_log_logcleaner_max_clean_time_secs"] > 0

    asyncio.run(story())
