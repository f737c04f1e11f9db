"""Folders that no partition claims: deleted where their topic was, otherwise set aside, once."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.topics import delete_topic
from ottla.log.storage.folder import PARTITION_METADATA, RECOVERY_POINTS, DataFolder
from ottla.metadata.controller import change_assignment
from ottla.metadata.documents import deleted_topic_key
from ottla.metadata.store import Delete
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import killed, new_node, running, topic, write

SEGMENT = f"{0:020d}.log"


def killed_after(
    act: Callable[[BrokerServer], Awaitable[None]], tmp_path: Path, partitions: int = 1
) -> Path:
    """A folder with topics a and b whose broker was killed right after a commit to the store."""
    folder = tmp_path / "data"

    async def live() -> None:
        async with running(folder) as node:
            for name in "ab":
                await topic(node, name, partitions)
                for partition in node.partitions.of_topic(name):
                    write(partition, 10)

    async def change() -> None:
        async with running(folder) as node:
            await act(node)

    asyncio.run(live())
    left = killed(folder, tmp_path / "killed")
    asyncio.run(change())
    for file in left.glob("metadata.sqlite*"):
        file.unlink()
    for file in folder.glob("metadata.sqlite*"):
        shutil.copy(file, left)
    return left


async def delete_a(node: BrokerServer) -> None:
    await delete_topic(node.metadata, "a")


async def lose_a(node: BrokerServer) -> None:
    """As where the metadata are an older copy, or the record of the deletion is not kept."""
    topic_id = node.image.topics["a"].id
    await delete_topic(node.metadata, "a")
    await node.metadata.store.commit([Delete(deleted_topic_key(topic_id))])


async def move_a(node: BrokerServer) -> None:
    """Another broker has the partition."""
    moved = change_assignment(node.image.topics["a"], {0: [node.id + 1]})
    await node.metadata.store.commit([moved])


def started(folder: Path) -> list[str]:
    """Start and stop; the warnings and errors."""

    async def live() -> None:
        async with running(folder) as node:
            assert node.partitions.find("b", 0).log.end_offset == 10

    with capture_logs() as said:
        asyncio.run(live())
    return [line["event"] for line in said if line["log_level"] in ("warning", "error")]


@pytest.mark.parametrize("act", [lose_a, move_a])
def test_what_nobody_claims_is_set_aside_and_told_once(
    tmp_path: Path, act: Callable[[BrokerServer], Awaitable[None]]
) -> None:
    left = killed_after(act, tmp_path)
    (told,) = started(left)
    assert "renamed them" in told
    assert not (left / "a-0").exists()
    (stray,) = left.glob("*-stray")
    assert (stray / SEGMENT).stat().st_size > 0, "nothing was deleted"
    assert started(left) == []


def test_what_a_kill_left_of_a_deleted_topic_is_deleted(tmp_path: Path) -> None:
    left = killed_after(delete_a, tmp_path)

    async def live() -> None:
        async with running(left) as node:
            assert node.partitions.find("b", 0).log.end_offset == 10
            await until(lambda: not [*left.glob("a-0*")])

    asyncio.run(live())
    assert started(left) == []


@pytest.mark.parametrize(("lose", "strays"), [(delete_a, 0), (lose_a, 3)])
def test_a_topic_made_again_with_fewer_partitions_keeps_its_own_folder(
    tmp_path: Path, lose: Callable[[BrokerServer], Awaitable[None]], strays: int
) -> None:
    async def make_again(node: BrokerServer) -> None:
        await lose(node)
        await topic(node, "a", 1)

    left = killed_after(make_again, tmp_path, partitions=3)
    started(left)
    assert len(list(left.glob("a-*-stray"))) == strays
    assert [each.name for each in left.glob("a-?")] == ["a-0"]
    assert (left / "a-0" / SEGMENT).stat().st_size == 0


@pytest.mark.parametrize("is_open", [True, False])
def test_a_topic_that_goes_without_a_record_under_a_running_broker_is_set_aside(
    tmp_path: Path, is_open: bool
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            for name in "ab":
                write(await topic(node, name, 2), 10)
        async with running(tmp_path) as node:
            if not is_open:
                partition = node.partitions.find("a", 0)
                node.partitions.remove(partition)
                assert node._log_loader is not None
                node._log_loader._unopened.add(("a", 0))
            gone = [
                Delete(each.key) for each in await node.metadata.store.scan("") if "/a" in each.key
            ]
            await node.metadata.store.commit(gone)
            await node.metadata.caught_up()
            assert node.partitions.get("b", 0) is not None
            await topic(node, "a", 2)
            assert node.partitions.find("a", 0).log.end_offset == 0
            assert ("a", 0) not in node.folder.read_checkpoint(RECOVERY_POINTS)

    with capture_logs() as said:
        asyncio.run(live())
    (told,) = [line for line in said if "with no record of its deletion" in line["event"]]
    assert (told["topic"], told["count"]) == ("a", 2)
    kept = sorted(each.name for each in tmp_path.glob("a-?.*-stray"))
    assert sorted(told["folders"].split(", ")) == kept
    assert [(tmp_path / each / SEGMENT).stat().st_size > 0 for each in kept] == [True, False]


def test_the_checkpoints_forget_a_folder_before_it_is_set_aside(tmp_path: Path) -> None:
    left = killed_after(lose_a, tmp_path)
    assert ("a", 0) in DataFolder(left).read_checkpoint(RECOVERY_POINTS)

    async def start_and_be_killed() -> Path:
        node = new_node(left)
        await node.open()
        await node.start({"PLAINTEXT": 1})
        again = killed(left, tmp_path / "killed-again")
        await node.close()
        return again

    again = asyncio.run(start_and_be_killed())
    assert ("a", 0) not in DataFolder(again).read_checkpoint(RECOVERY_POINTS)
    assert ("b", 0) in DataFolder(again).read_checkpoint(RECOVERY_POINTS)


@pytest.mark.parametrize("content", [None, b"", b"version: 0\ntopic_id: ?\n"])
def test_a_folder_whose_topic_is_not_known_is_left_alone(
    tmp_path: Path, content: bytes | None
) -> None:
    left = killed_after(delete_a, tmp_path)
    metadata = left / "a-0" / PARTITION_METADATA
    if content is None:
        metadata.unlink()
    else:
        metadata.write_bytes(content)
    assert started(left) == ["ignoring folders that belong to no topic"]
    assert (left / "a-0" / SEGMENT).stat().st_size > 0


@pytest.mark.parametrize(("lose", "mark"), [(lose_a, "-stray"), (delete_a, "-delete")])
def test_a_disk_that_refuses_leaves_the_folder_for_the_next_start(
    tmp_path: Path, lose: Callable[[BrokerServer], Awaitable[None]], mark: str
) -> None:
    left = killed_after(lose, tmp_path)

    async def live() -> None:
        node = new_node(left)
        rename = node.files.rename

        def refuse(old: str, new: str) -> None:
            if new.endswith(mark):
                raise OSError(30, "Read-only file system")
            rename(old, new)

        node.files.rename = refuse
        await node.open()
        await node.start({"PLAINTEXT": 1})
        await node.close()

    with capture_logs() as said:
        asyncio.run(live())
    refused = [line for line in said if "Read-only file system" in line.get("reason", "")]
    assert [line["log_level"] for line in refused] == ["error"]
    assert (left / "a-0").exists()
    started(left)
    assert not (left / "a-0").exists()
