"""Killed, or failed by the disk, anywhere in a compaction: nothing is lost, and nothing is left."""

import errno
import shutil
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.log.compaction.cleaner import compact
from ottla.log.compaction.order import Cleaned, Finished
from ottla.log.compaction.plan import Plan, plan
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.records import Record
from ottla.records.control import MarkerType
from ottla.wire.errors import ErrorCode, KafkaError
from tests.log.compacting import MEMORY, committed, compacted, keyed, records, state
from tests.log.faulty import FaultyFiles, Killed
from tests.log.making import NOW, Logs, append, flush, marker, read_all

SMALL = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=500, delete_retention_ms=0)
CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=1400, delete_retention_ms=0)
CHANGES_NOTHING = {"pread", "close", "stat", "listdir", "fsync"}
"""To be killed before one of these is to be killed before the next other operation."""
LEFTOVERS = (".cleaned", ".swap", ".deleted", ".tmp")


class Before(NamedTuple):
    """A log before its compaction."""

    directory: Path
    records: list[Record]
    committed: dict[bytes | None, bytes]
    end_offset: int
    whole: bytes
    """All of its batches."""
    compacted: bytes
    """All that a compaction leaves of them."""


@pytest.fixture
def before(tmp_path: Path) -> Before:
    """Seven segments that become three, with batches that stay, shrink, are emptied and go."""
    logs = Logs(tmp_path / "before-0", FaultyFiles())
    log = logs.open(SMALL)
    for at in range(20):
        value = None if at % 7 == 3 else f"{at}" * 20
        append(log, keyed((f"key-{at % 4}", value), (f"rare-{at % 9}", "x")))
        if at % 6 == 2:
            sequence = at // 6
            data = keyed(
                (f"key-{at % 4}", "aborted"),
                producer=1,
                epoch=0,
                sequence=sequence,
                transactional=True,
            )
            append(log, data)
        if at % 6 == 5:
            control = marker(MarkerType.ABORT, producer=1)
            log.append_marker(control, now=NOW, leader_epoch=0)
    log.append_marker(marker(MarkerType.COMMIT, producer=1), now=NOW, leader_epoch=0)
    append(log, keyed(("key-0", None), ("key-1", "last")))
    log.roll(NOW)
    append(log, keyed(("key-2", "active")))
    log.close()
    copied = opened(copy(logs.directory, "compacted"), FaultyFiles())
    compacted(copied, 0)
    assert len(copied.segments) == 4
    found = Before(
        logs.directory,
        records(log := opened(logs.directory, FaultyFiles())),
        state(committed(log)),
        log.end_offset,
        read_all(log),
        read_all(copied),
    )
    assert len(log.segments) == 8
    for each in (log, copied):
        each.fail(RuntimeError("done"))
    return found


def copy(directory: Path, name: str) -> Path:
    return Path(shutil.copytree(directory, directory.with_name(f"{name}-0")))


def opened(directory: Path, files: FaultyFiles) -> Log:
    return Logs(directory, files).open(CONFIG)


def interrupted(log: Log, files: FaultyFiles) -> bool:
    """Compact until a kill, if one comes."""
    try:
        compacted(log, 0, files=files)
    except Killed:
        return True
    return False


def check_next_start(before: Before, directory: Path, *, clean: bool) -> bytes:
    """Whatever was interrupted, the log holds what it has to and can be compacted again.

    A broker opens a log that has nothing past its recovery point as after a clean stop.
    """
    logs = Logs(directory, FaultyFiles())
    log = logs.open(CONFIG, clean=clean, recovery_point=before.end_offset)
    assert not [name for name in logs.names() if name.endswith(LEFTOVERS)]
    bases = {name.partition(".")[0] for name in logs.names() if name.endswith(".log")}
    for suffix in (".index", ".timeindex", ".txnindex"):
        found = {name.partition(".")[0] for name in logs.names() if name.endswith(suffix)}
        assert found <= bases
        assert suffix == ".txnindex" or found == bases
    segments = list(log.segments)
    for segment, following in pairwise(segments):
        assert segment.end_before(following.base_offset, segment.size) <= following.base_offset
    assert log.end_offset == before.end_offset
    assert log.last_stable_offset == before.end_offset
    assert state(committed(log)) == before.committed
    left = records(log)
    assert [each for each in before.records if each in left] == left
    content = read_all(log)
    compacted(log, 0)
    assert state(committed(log)) == before.committed
    assert append(log, keyed(("key-3", "new"))).base_offset == before.end_offset
    logs.close()
    return content


def test_a_process_may_be_killed_at_any_operation(before: Before) -> None:
    """Writing the new files is a child's work and putting them in place is the broker's; here one
    process does both, so that each operation of each is the last one once."""
    files = FaultyFiles()
    log = opened(copy(before.directory, "whole"), files)
    flush(log)
    first = files.count
    assert not interrupted(log, files)
    numbers = [
        number for number, name in enumerate(files.done[first:]) if name not in CHANGES_NOTHING
    ]
    log.fail(RuntimeError("done"))
    assert len(numbers) > 60

    contents = set()
    for number in numbers:
        directory = copy(before.directory, f"kill{number}")
        files = FaultyFiles(fault="kill")
        log = opened(directory, files)
        flush(log)
        files.fail_at = files.count + number
        assert interrupted(log, files)
        try:
            clean = number % 2 == 0
            contents.add(check_next_start(before, directory, clean=clean))
        except Exception as problem:
            raise AssertionError(f"after operation {number}, {files.failed}") from problem
        files.close_all()
        shutil.rmtree(directory)
    assert before.whole in contents
    assert before.compacted in contents
    assert len(contents) >= 4, "each group that is in place makes a difference"


def failure(planned: Plan, cleaned: Cleaned) -> Exception | None:
    try:
        planned.carry_out(cleaned, NOW)
    except (KafkaError, OSError) as problem:
        return problem
    return None


@pytest.mark.parametrize("fault", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_any_operation_of_putting_files_in_place_may_fail(before: Before, fault: int) -> None:
    number = 0
    outcomes = set()
    while True:
        directory = copy(before.directory, f"fail{number}")
        files = FaultyFiles(fault=fault)
        log = opened(directory, files)
        planned = plan(log, 0, NOW)
        assert planned is not None
        order = planned.order(NOW, memory=MEMORY, bytes_per_second=float("inf"))
        cleaned = next(compact(order, FaultyFiles()))
        assert not isinstance(cleaned, Finished)
        files.fail_at = files.count + number
        problem = failure(planned, cleaned)
        if files.failed is None:
            break
        if isinstance(problem, KafkaError):
            assert problem.code == ErrorCode.KAFKA_STORAGE_ERROR
            assert log.offline
        elif problem is not None and not log.offline:
            assert read_all(log) == before.whole
        if not log.offline:
            assert state(committed(log)) == before.committed
        outcomes.add((problem is None, log.offline))
        log.fail(RuntimeError("done"))
        check_next_start(before, directory, clean=number % 2 == 0)
        shutil.rmtree(directory)
        number += 1
    log.fail(RuntimeError("done"))
    assert number > 20
    assert {(False, True), (False, False)} <= outcomes


def test_when_undoing_fails_too_the_log_goes_offline(before: Before) -> None:
    """A swap that is left behind would be finished at the next start, over newer records."""
    files = FaultyFiles(fault=errno.EIO)
    log = opened(copy(before.directory, "undo"), files)
    planned = plan(log, 0, NOW)
    assert planned is not None
    order = planned.order(NOW, memory=MEMORY, bytes_per_second=float("inf"))
    cleaned = next(compact(order, FaultyFiles()))
    assert not isinstance(cleaned, Finished)

    def broken(*_: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    files.rename = files.unlink = broken
    with pytest.raises(OSError, match="Input/output"):
        planned.carry_out(cleaned, NOW)
    assert log.offline


@pytest.mark.parametrize("missing", [".log", ".index", ".timeindex"])
def test_incomplete_cleaned_files_are_not_swapped_in(before: Before, missing: str) -> None:
    log = opened(copy(before.directory, "missing"), FaultyFiles())
    planned = plan(log, 0, NOW)
    assert planned is not None
    order = planned.order(NOW, memory=MEMORY, bytes_per_second=float("inf"))
    cleaned = next(compact(order, FaultyFiles()))
    assert not isinstance(cleaned, Finished)
    (log.directory / f"{0:020d}{missing}.cleaned").unlink()
    with pytest.raises(FileNotFoundError):
        planned.carry_out(cleaned, NOW)
    assert not log.offline
    assert read_all(log) == before.whole
    log.fail(RuntimeError("done"))


def test_other_segments_than_those_of_the_log_are_not_replaced(before: Before) -> None:
    log = opened(copy(before.directory, "other"), FaultyFiles())
    segments = list(log.segments)
    for wrong in (segments[-1:], segments[-2:], [segments[0], segments[2]]):
        with pytest.raises(ValueError, match="other segments"):
            log.replace_segments(wrong, NOW)
    log.fail(RuntimeError("done"))
