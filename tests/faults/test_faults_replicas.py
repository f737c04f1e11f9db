"""Replicas that differ, or lack what is committed, are found."""

from pathlib import Path

from faults.replicas import ANY_OFFSET, difference, stored
from testkit.batches import Batch, Plain


def write(folder: Path, *lives: tuple[int, int, bytes], segment: int = 0) -> Path:
    """A segment with a batch of two records for each offset, epoch and value."""
    folder.mkdir(parents=True, exist_ok=True)
    data = b"".join(
        Batch([Plain(value)] * 2, base_offset=base, leader_epoch=epoch, base_timestamp=1).build()
        for base, epoch, value in lives
    )
    (folder / f"{segment:020}.log").write_bytes(data)
    return folder


def test_equal_replicas_have_no_difference(tmp_path: Path) -> None:
    folders = {
        number: write(tmp_path / str(number), (0, 1, b"a"), (2, 1, b"b")) for number in range(3)
    }
    assert difference(folders, 0, 4, ANY_OFFSET) == ""


def test_another_epoch_and_other_bytes_are_found(tmp_path: Path) -> None:
    right = write(tmp_path / "0", (0, 1, b"a"), (2, 1, b"b"))
    epoch = write(tmp_path / "1", (0, 1, b"a"), (2, 2, b"b"))
    value = write(tmp_path / "2", (0, 1, b"a"), (2, 1, b"c"))
    assert "of epoch 2" in difference({0: right, 1: epoch}, 0, 4, 4)
    assert "other bytes" in difference({0: right, 2: value}, 0, 4, 4)
    assert difference({0: right, 1: epoch, 2: value}, 0, 2, 2) == ""


def test_a_replica_without_what_is_committed_is_found(tmp_path: Path) -> None:
    right = write(tmp_path / "0", (0, 1, b"a"), (2, 1, b"b"))
    short = write(tmp_path / "1", (0, 1, b"a"))
    assert "ends at 2" in difference({0: right, 1: short}, 0, 4, 4)
    assert difference({0: right, 1: short}, 0, 2, 2) == ""
    assert "has 2 batches" in difference({0: right, 1: short}, 0, 2, ANY_OFFSET)


def test_segments_and_torn_ends_do_not_matter(tmp_path: Path) -> None:
    one = write(tmp_path / "0", (0, 1, b"a"), (2, 1, b"b"), (4, 1, b"c"))
    two = write(tmp_path / "1", (0, 1, b"a"))
    write(two, (2, 1, b"b"), (4, 1, b"c"), segment=2)
    assert difference({0: one, 1: two}, 0, 6, 6) == ""
    assert [each.base for each in stored(two, 3, 6)] == [2, 4]
    log = two / f"{2:020}.log"
    log.write_bytes(log.read_bytes()[:-1])
    assert [each.base for each in stored(two, 0, ANY_OFFSET)] == [0, 2]
