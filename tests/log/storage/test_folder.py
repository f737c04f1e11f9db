"""The data folder: one owner, one identity, and checkpoints that a crash cannot tear."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from ottla.log.config import LogConfig
from ottla.log.storage.files import Files
from ottla.log.storage.folder import (
    META_PROPERTIES,
    RECOVERY_POINTS,
    STORAGE_PROPERTIES,
    DataFolder,
    FolderError,
    MetaProperties,
    PartitionFolder,
    deleted_stem,
    uuid_from_text,
    uuid_to_text,
)
from tests.log.faulty import FaultyFiles, Killed
from tests.log.making import Logs, append, batch

TOPIC_ID = UUID("04e534af-0759-402f-b329-ca4de2b0384d")


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path)


def test_the_folder_is_made_and_owned(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "new" / "data")
    folder.lock()
    assert (folder.path / ".lock").exists()
    folder.unlock()


def test_a_second_owner_gets_one_clear_line(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.lock()
    with pytest.raises(FolderError) as refused:
        DataFolder(tmp_path).lock()
    assert str(tmp_path) in str(refused.value)
    assert "\n" not in str(refused.value)
    folder.unlock()
    again = DataFolder(tmp_path)
    again.lock()
    again.unlock()


def test_another_process_cannot_own_it_until_the_owner_is_dead(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import pathlib, sys\n"
            "from ottla.log.storage.folder import DataFolder\n"
            "folder = DataFolder(pathlib.Path(sys.argv[1]))\n"
            "folder.lock()\n"
            "print('locked', flush=True)\n"
            "sys.stdin.read()\n",
            str(tmp_path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"locked\n"
        with pytest.raises(FolderError):
            DataFolder(tmp_path).lock()
        owner.kill()
    folder = DataFolder(tmp_path)
    folder.lock()
    folder.unlock()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="file"):
        DataFolder(tmp_path / "file" / "data").lock()


def test_the_folder_remembers_whose_it_is(folder: DataFolder) -> None:
    first = folder.identify("cluster", 4)
    assert folder.identify("cluster", 4) == first
    for cluster_id, node_id in (("other", 4), ("cluster", 5)):
        with pytest.raises(FolderError, match="belongs to node 4 of cluster cluster"):
            folder.identify(cluster_id, node_id)


def test_meta_properties_are_kafkas(folder: DataFolder) -> None:
    (folder.path / "meta.properties").write_text(
        "#\n#Mon Nov 16 11:12:32 UTC 2026\nnode.id=1\ndirectory.id=JogAzpLS2MVYzur6uEaUdw\n"
        "version=1\ncluster.id=wrcsxxFOT0G7uY1YgpiaTw\n"
    )
    found = folder.read_meta()
    assert found == MetaProperties(
        "wrcsxxFOT0G7uY1YgpiaTw", 1, uuid_from_text("JogAzpLS2MVYzur6uEaUdw")
    )
    folder.write_meta(found)
    assert (folder.path / "meta.properties").read_text() == (
        "version=1\ncluster.id=wrcsxxFOT0G7uY1YgpiaTw\nnode.id=1\n"
        "directory.id=JogAzpLS2MVYzur6uEaUdw\n"
    )


@pytest.mark.parametrize(
    "text", ["", "version=2\n", "version=1\ncluster.id=x\n", "version=1\ncluster.id=x\nnode.id=y\n"]
)
def test_damaged_meta_properties_are_an_error(folder: DataFolder, text: str) -> None:
    (folder.path / "meta.properties").write_text(text)
    with pytest.raises(FolderError, match=r"meta\.properties is corrupt"):
        folder.read_meta()


def test_a_clean_stop_holds_for_one_start(folder: DataFolder) -> None:
    assert not folder.take_clean_mark()
    folder.write_clean_mark(7)
    mark = folder.path / ".kafka_cleanshutdown"
    assert mark.read_text() == '{"version":0,"brokerEpoch":7}'
    assert folder.take_clean_mark()
    assert not folder.take_clean_mark()


def test_checkpoints_are_kafkas(folder: DataFolder) -> None:
    offsets = {("orders", 0): 12, ("a.b_c-d", 7): 2**62}
    folder.write_checkpoint(RECOVERY_POINTS, offsets)
    text = (folder.path / "recovery-point-offset-checkpoint").read_text()
    assert text == f"0\n2\norders 0 12\na.b_c-d 7 {2**62}\n"
    assert folder.read_checkpoint(RECOVERY_POINTS) == offsets
    folder.write_checkpoint(RECOVERY_POINTS, {})
    assert folder.read_checkpoint(RECOVERY_POINTS) == {}


@pytest.mark.parametrize(
    "text",
    [
        "1\n0\n",
        "0\n2\norders 0 12\n",
        "0\n1\norders 0\n",
        "0\n1\norders zero 12\n",
        "0\n1\norders 0 12 13\n",
        "0\n1\norders 0 -12\n",
        f"0\n1\norders 0 {2**63}\n",
        f"0\n1\norders 0 {'9' * 5000}\n",
        "0\nmany\n",
        "0\n1\n\n",
        "\x00\x01\x02",
    ],
)
def test_a_damaged_checkpoint_counts_as_missing(folder: DataFolder, text: str) -> None:
    (folder.path / RECOVERY_POINTS).write_text(text)
    assert folder.read_checkpoint(RECOVERY_POINTS) == {}


def test_a_missing_or_empty_checkpoint_has_no_offsets(folder: DataFolder) -> None:
    assert folder.read_checkpoint(RECOVERY_POINTS) == {}
    (folder.path / RECOVERY_POINTS).write_bytes(b"")
    assert folder.read_checkpoint(RECOVERY_POINTS) == {}


def test_a_kill_at_any_point_leaves_the_old_checkpoint_or_the_new_one(tmp_path: Path) -> None:
    old, new = {("t", 0): 1}, {("t", 0): 2, ("t", 1): 3}
    seen = set()
    for fail_at in range(100):
        folder = DataFolder(tmp_path / str(fail_at), files := FaultyFiles(fault="kill"))
        folder.path.mkdir()
        DataFolder(folder.path).write_checkpoint(RECOVERY_POINTS, old)
        files.fail_at = fail_at
        try:
            folder.write_checkpoint(RECOVERY_POINTS, new)
        except Killed:
            pass
        found = DataFolder(folder.path).read_checkpoint(RECOVERY_POINTS)
        assert found in (old, new)
        seen.add(len(found))
        if files.failed is None:
            assert found == new
            break
    assert seen == {1, 2}
    assert fail_at > 5


def test_a_failed_write_of_a_checkpoint_leaves_the_old_one(tmp_path: Path) -> None:
    files = FaultyFiles()
    folder = DataFolder(tmp_path, files)
    folder.write_checkpoint(RECOVERY_POINTS, {("t", 0): 1})
    for number in range(4):
        files.fail_at = files.count + number
        with pytest.raises(OSError, match="Input/output error"):
            folder.write_checkpoint(RECOVERY_POINTS, {("t", 0): 2})
        assert DataFolder(tmp_path).read_checkpoint(RECOVERY_POINTS) == {("t", 0): 1}


def test_partitions_are_found_by_their_folders(folder: DataFolder) -> None:
    for name in (
        "orders-0",
        "a.b-c-12",
        "orders-1.0123456789abcdef0123456789abcdef-delete",
        "orders-2.0123456789abcdef0123456789abcdef-future",
        "orders-",
        "-3",
        "orders",
    ):
        (folder.path / name).mkdir()
    assert sorted(folder.partitions()) == [
        PartitionFolder("a.b-c", 12, folder.path / "a.b-c-12"),
        PartitionFolder("orders", 0, folder.path / "orders-0"),
    ]
    ((stem, deleted),) = folder.deleted()
    assert deleted.name.startswith("orders-1.")
    assert stem == deleted_stem("orders", 1) == "orders-1"
    assert folder.partition_path("orders", 0) == folder.path / "orders-0"


def test_a_deleted_partition_is_removed_with_its_files(folder: DataFolder) -> None:
    logs = Logs(folder.partition_path("orders", 0))
    log = logs.open(LogConfig())
    append(log, batch())
    log.delete()
    ((_, deleted),) = folder.deleted()
    for _ in range(2):
        folder.empty(deleted)
        folder.remove(deleted)
    assert folder.deleted() == []
    assert not deleted.exists()


def test_a_partitions_folder_knows_its_topics_id(folder: DataFolder) -> None:
    path = folder.partition_path("orders", 0)
    path.mkdir()
    assert folder.read_topic_id(path) is None
    folder.write_topic_id(path, TOPIC_ID)
    text = (path / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: BOU0rwdZQC-zKcpN4rA4TQ\n"
    assert folder.read_topic_id(path) == TOPIC_ID
    (path / "partition.metadata").write_text("version: 0\ntopic_id: BOU0rwdZQC-zKcpN4rA4TQ")
    assert folder.read_topic_id(path) == TOPIC_ID
    (path / "partition.metadata").write_text("")
    assert folder.read_topic_id(path) is None


@pytest.mark.parametrize("text", ["nonsense", "version: 0\n", "version: 0\ntopic_id: x\n"])
def test_a_damaged_topic_id_is_an_error(folder: DataFolder, text: str) -> None:
    (folder.path / "partition.metadata").write_text(text)
    with pytest.raises(FolderError, match=r"partition\.metadata is corrupt"):
        folder.read_topic_id(folder.path)


def test_ids_are_written_as_kafka_writes_them() -> None:
    assert uuid_to_text(TOPIC_ID) == "BOU0rwdZQC-zKcpN4rA4TQ"
    assert uuid_from_text("BOU0rwdZQC-zKcpN4rA4TQ") == TOPIC_ID
    for text in ("", "x", "BOU0rwdZQC-zKcpN4rA4T!", "BOU0rwdZQC-zKcpN4rA4TQAA"):
        with pytest.raises(ValueError, match=r"."):
            uuid_from_text(text)


def test_a_lost_page_cache_takes_back_high_watermarks_above_the_recovery_points(
    tmp_path: Path,
) -> None:
    # A truncation that was not synced is undone: at offsets up to the high watermark there may be
    # records of an older leader epoch. Called committed, they would never be truncated again.
    folder = DataFolder(tmp_path)
    folder.storage_epoch("first boot")
    folder.write_checkpoint("recovery-point-offset-checkpoint", {("t", 0): 268})
    known = {("t", 0): 315, ("t", 1): 10}
    folder.write_checkpoint("replication-offset-checkpoint", known)
    folder.storage_epoch("first boot")
    assert folder.read_checkpoint("replication-offset-checkpoint") == known
    folder.storage_epoch("second boot")
    assert folder.read_checkpoint("replication-offset-checkpoint") == {("t", 0): 268, ("t", 1): 0}


def test_an_id_that_a_power_loss_left_as_zeros_counts_as_missing(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "partition.metadata").write_bytes(bytes(44))
    assert folder.read_topic_id(tmp_path / "t-0") is None


def test_a_restarted_machine_raises_the_storage_epoch(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    assert folder.storage_epoch("first boot") == 0
    assert folder.storage_epoch("first boot") == 0, "a killed process loses nothing"
    assert folder.storage_epoch("second boot") == 1
    assert folder.storage_epoch("second boot") == 1, "what was lost stays lost"
    assert folder.storage_epoch("third boot") == 2


def test_after_a_clean_stop_the_machine_may_be_restarted(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    folder.storage_epoch("first boot")
    folder.write_clean_mark()
    assert folder.storage_epoch("second boot") == 0
    assert folder.take_clean_mark()
    assert folder.storage_epoch("second boot") == 0
    assert folder.storage_epoch("third boot") == 1


def test_a_system_without_boot_ids_is_trusted(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    assert folder.storage_epoch("") == 0
    assert folder.storage_epoch("first boot") == 0
    assert folder.storage_epoch("") == 0
    assert folder.storage_epoch("second boot") == 1


def test_a_folder_without_a_directory_id_gets_one_for_good(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).write_text("version=1\ncluster.id=c\nnode.id=1\n")
    folder = DataFolder(tmp_path)
    given = folder.identify("c", 1).directory_id
    assert folder.identify("c", 1).directory_id == given


def test_a_folder_is_the_same_one_without_its_meta_properties(tmp_path: Path) -> None:
    """Operators remove the file to give a folder another identity; its records are still there."""
    folder = DataFolder(tmp_path)
    given = folder.identify("c", 1).directory_id
    folder.storage_epoch("boot", given)
    (tmp_path / META_PROPERTIES).unlink()
    assert folder.identify("c", 1).directory_id == given
    (tmp_path / META_PROPERTIES).write_text("version=1\ncluster.id=c\nnode.id=1\n")
    assert folder.identify("c", 1).directory_id == given
    assert folder.identify("c", 1).directory_id == given


@pytest.mark.parametrize("text", ["", "\0\0\0\0", "version=1\nstorage.epoch=x\n"])
def test_a_damaged_storage_epoch_is_another_one_and_stays(tmp_path: Path, text: str) -> None:
    """The broker starts, and is not taken for one that has kept everything."""
    folder = DataFolder(tmp_path)
    known = folder.storage_epoch("boot")
    (tmp_path / STORAGE_PROPERTIES).write_text(text)
    given = folder.storage_epoch("boot")
    assert given > known
    assert folder.storage_epoch("boot") == given


def without_room(folder: Path) -> DataFolder:
    """A disk that takes no new file, as a full one; what is there can be written to."""
    files = Files()

    def open_file(path: str, flags: int, mode: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.open(path, flags, mode)

    files.open = open_file
    return DataFolder(folder, files)


def test_a_storage_epoch_is_raised_on_a_full_disk(tmp_path: Path) -> None:
    DataFolder(tmp_path).storage_epoch("a boot id that is longer")
    full = without_room(tmp_path)
    assert full.storage_epoch("second") == 1
    assert full.storage_epoch("second") == 1
    assert DataFolder(tmp_path).storage_epoch("second") == 1
    assert full.storage_epoch("third") == 2


def test_a_full_disk_has_no_storage_epoch_yet(tmp_path: Path) -> None:
    """As after an upgrade. A broker that did not start could not delete anything."""
    assert without_room(tmp_path).storage_epoch("boot") == 0
