"""After a crash: what is scanned, truncated and rebuilt, and what must never be truncated."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from struct import pack

import pytest

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.recovery.child import main
from ottla.log.recovery.recovery import Recovered, needs_recovery_bytes, recover
from ottla.log.segments.scan import CorruptLog
from ottla.wire.errors import KafkaError
from tests.log.faulty import FaultyFiles, Killed
from tests.log.making import NOW, Logs, append, batch, every_file, flush, read_all, read_headers

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200)


def recovered(logs: Logs, recovery_point: int, start_offset: int = 0) -> tuple[Log, Recovered]:
    return recover(
        logs.directory,
        CONFIG,
        files=logs.files,
        cache=logs.cache,
        recovery_point=recovery_point,
        start_offset=start_offset,
        now=NOW,
    )


def filled(logs: Logs, count: int = 60) -> Log:
    log = logs.open(CONFIG)
    for i in range(count):
        records = batch(3, timestamp=NOW + i, producer=1, epoch=0, sequence=3 * i)
        append(log, records, leader_epoch=i // 20)
    return log


def derived(directory: Path) -> dict[str, bytes]:
    """Everything of a log that can be rebuilt from its batches."""
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if path.suffix in {".index", ".timeindex"} or path.name == "leader-epoch-checkpoint"
    }


def test_a_killed_process_loses_nothing(logs: Logs) -> None:
    log = filled(logs)
    expected = read_all(log)
    logs.crash(log)
    log, found = recovered(logs, 0)
    assert (found.truncated_bytes, found.problem) == (0, None)
    assert found.scanned_bytes == len(expected)
    assert read_all(log) == expected
    assert log.epochs.entries() == [(0, 0), (1, 60), (2, 120)]


@pytest.mark.parametrize("flushed_after", [0, 1, 20, 45, 60])
def test_what_is_rebuilt_is_what_a_clean_stop_would_have_left(
    logs: Logs, flushed_after: int
) -> None:
    log = filled(logs)
    log.close()
    expected = derived(logs.directory)
    for path in list(logs.directory.iterdir()):
        path.unlink()
    log = filled(logs, flushed_after)
    flush(log)
    point = log.recovery_point
    for i in range(flushed_after, 60):
        records = batch(3, timestamp=NOW + i, producer=1, epoch=0, sequence=3 * i)
        append(log, records, leader_epoch=i // 20)
    logs.crash(log)
    log, _ = recovered(logs, point)
    log.close()
    assert derived(logs.directory) == expected


def test_only_what_lies_past_the_recovery_point_is_scanned(logs: Logs) -> None:
    log = filled(logs)
    flush(log)
    point = log.recovery_point
    for _ in range(3):
        append(log, batch(3), leader_epoch=2)
    tail = 3 * len(batch(3))
    logs.crash(log)
    at_most = tail + CONFIG.index_interval_bytes + 2 * len(batch(3))
    assert tail <= needs_recovery_bytes(logs.directory, point, logs.files) <= at_most
    _, found = recovered(logs, point)
    assert tail <= found.scanned_bytes <= at_most


@pytest.mark.parametrize("lost", [1, 60, 61, 100, 150])
def test_a_torn_tail_is_truncated(logs: Logs, lost: int) -> None:
    log = filled(logs, 5)
    whole = read_all(log)
    logs.crash(log)
    os.truncate(next(every_file(logs.directory, ".log")), len(whole) - lost)
    log, found = recovered(logs, 0)
    size = len(whole) // 5
    batches = (len(whole) - lost) // size
    assert found.truncated_bytes == len(whole) - lost - batches * size
    assert log.end_offset == found.end_offset == 3 * batches
    assert read_all(log) == whole[: batches * size]
    assert append(log, batch(3)).base_offset == 3 * batches


@pytest.mark.parametrize(
    "garbage",
    [b"\0" * 500, b"\xff" * 500, bytes(batch(3)), b"x"],
    ids=["zeros", "ones", "a batch of another offset", "one byte"],
)
def test_garbage_after_the_last_batch_is_truncated(logs: Logs, garbage: bytes) -> None:
    log = filled(logs, 5)
    whole = read_all(log)
    logs.crash(log)
    with next(every_file(logs.directory, ".log")).open("ab") as file:
        file.write(garbage)
    log, found = recovered(logs, 0)
    assert found.truncated_bytes == len(garbage)
    assert read_all(log) == whole


def test_a_bad_batch_past_the_recovery_point_ends_the_log_there(logs: Logs) -> None:
    log = filled(logs)
    whole = read_all(log)
    assert len(log.segments) > 3
    logs.crash(log)
    first = next(every_file(logs.directory, ".log"))
    size = len(whole) // 60
    with first.open("r+b") as file:
        file.seek(5 * size + 80)
        file.write(b"?")
    log, found = recovered(logs, 0)
    assert log.end_offset == 15
    assert found.truncated_bytes == len(whole) - 5 * size
    assert [path.name for path in every_file(logs.directory, ".log")] == [first.name]
    assert read_all(log) == whole[: 5 * size]
    assert append(log, batch(3, producer=1, epoch=0, sequence=15)).base_offset == 15


def test_a_segment_whose_predecessor_lost_its_end_is_removed_too(logs: Logs) -> None:
    log = filled(logs)
    whole = read_all(log)
    logs.crash(log)
    size = len(whole) // 60
    first = next(every_file(logs.directory, ".log"))
    os.truncate(first, first.stat().st_size - size)
    log, found = recovered(logs, 0)
    assert "does not follow" in str(found.problem)
    assert read_all(log) == whole[: first.stat().st_size]


def test_in_a_compacted_log_batches_may_be_missing_between_segments(logs: Logs) -> None:
    log = filled(logs)
    whole = read_all(log)
    logs.crash(log)
    size = len(whole) // 60
    first = next(every_file(logs.directory, ".log"))
    os.truncate(first, first.stat().st_size - size)
    log = logs.open(LogConfig(cleanup_policy=frozenset({"compact"})), clean=False)
    assert len(read_all(log)) == len(whole) - size


def test_a_recovery_that_is_killed_while_it_truncates_leaves_no_hole(tmp_path: Path) -> None:
    """In a compacted log nothing would show that segments between two others are gone."""
    config = LogConfig(segment_bytes=700, cleanup_policy=frozenset({"compact"}))
    logs = Logs(tmp_path / "t-0")
    log = logs.open(config)
    for number in range(30):
        append(log, batch(timestamp=NOW + number))
    logs.crash(log)
    whole = read_files(logs.directory)
    second = list(every_file(logs.directory, ".log"))[1]
    os.truncate(second, second.stat().st_size - 30)
    left = {path: path.read_bytes() for path in logs.directory.iterdir()}
    for killed_at in range(1000):
        for path in logs.directory.iterdir():
            path.unlink()
        for path, data in left.items():
            path.write_bytes(data)
        dying = FaultyFiles(killed_at, "kill")
        try:
            Logs(logs.directory, dying).open(config, clean=False)
        except Killed:
            pass
        dying.close_all()
        log = logs.open(config, clean=False)
        assert whole.startswith(read_all(log))
        logs.crash(log)
        if dying.failed is None:
            return


def read_files(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in every_file(directory, ".log"))


def test_a_log_copied_from_one_that_was_compacted_once_has_gaps_too(logs: Logs) -> None:
    """Its topic may be of the policy "delete" by now."""
    log = logs.open(CONFIG)
    for number in range(60):
        log.append_as_follower(batch(base_offset=3 * number, leader_epoch=0))
    assert len(log.segments) > 2
    logs.crash(log)
    log, found = recovered(logs, 0)
    assert (log.end_offset, found.truncated_bytes) == (178, 0)


@pytest.mark.parametrize("damage", ["changed", "cut off", "gone"])
def test_a_corrupt_batch_below_the_recovery_point_is_never_truncated(
    logs: Logs, damage: str
) -> None:
    log = filled(logs, 5)
    flush(log)
    point = log.recovery_point
    logs.crash(log)
    path = next(every_file(logs.directory, ".log"))
    size = path.stat().st_size
    if damage == "changed":
        with path.open("r+b") as file:
            file.seek(size - 5)
            file.write(b"?????")
    else:
        os.truncate(path, size - 5 if damage == "cut off" else size // 5 * 3)
    left = path.read_bytes()
    with pytest.raises(CorruptLog, match="before its recovery point 15"):
        recovered(logs, point)
    assert path.read_bytes() == left


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("left", ["an empty file", "an empty folder", "nothing"])
def test_a_log_whose_files_are_gone_is_not_recreated_empty(
    logs: Logs, clean: bool, left: str
) -> None:
    log = filled(logs, 5)
    log.close()
    for path in logs.directory.iterdir():
        if left == "an empty file" and path.name == f"{0:020d}.log":
            os.truncate(path, 0)
        else:
            path.unlink()
    if left == "nothing":
        logs.directory.rmdir()
    assert needs_recovery_bytes(logs.directory, 15, logs.files) > 0
    with pytest.raises(CorruptLog, match="before its recovery point 15"):
        logs.open(CONFIG, clean=clean, recovery_point=15)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("problem", ["too short", "torn", "no room"])
def test_a_log_that_cannot_be_opened_holds_no_file_open(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, clean: bool, problem: str
) -> None:
    filled(logs, 20).close()
    path = list(every_file(logs.directory, ".log"))[-1]
    if problem == "no room":
        next(every_file(logs.directory, ".index")).unlink()
        monkeypatch.setattr(logs.files, "pwrite", refuse)
    else:
        os.truncate(path, 0 if problem == "too short" else path.stat().st_size - 10)
    with pytest.raises((CorruptLog, OSError)):
        logs.open(CONFIG, clean=clean, recovery_point=60)
    assert len(logs.cache) == 0


def test_a_new_log_needs_no_recovery(logs: Logs) -> None:
    assert needs_recovery_bytes(logs.directory, 0, logs.files) == 0
    assert not logs.directory.exists()
    logs.open().close()
    assert needs_recovery_bytes(logs.directory, 0, logs.files) == 0


def test_a_segment_sealed_after_the_last_flush_is_found_by_its_last_timestamp(logs: Logs) -> None:
    log = logs.open(CONFIG)
    for number in range(6):
        append(log, batch(timestamp=NOW + number))
    flush(log)
    log.roll(NOW)
    logs.crash(log)
    is_clean = needs_recovery_bytes(logs.directory, 6, logs.files) == 0
    log = logs.open(CONFIG, clean=is_clean, recovery_point=6)
    found = log.offset_for_timestamp(NOW + 5, 6)
    assert found is not None
    assert (found.timestamp, found.offset) == (NOW + 5, 5)
    assert log.segments.first.largest_timestamp() == NOW + 5


def test_a_log_all_of_which_was_deleted_may_end_before_its_recovery_point(logs: Logs) -> None:
    log = filled(logs, 5)
    flush(log)
    logs.crash(log)
    os.truncate(next(every_file(logs.directory, ".log")), 0)
    log, _ = recovered(logs, 15, start_offset=15)
    assert (log.start_offset, log.end_offset) == (15, 15)
    assert append(log, batch()).base_offset == 15


def test_the_start_offset_is_kept(logs: Logs) -> None:
    log = filled(logs)
    logs.crash(log)
    log, _ = recovered(logs, 0, start_offset=100)
    assert log.start_offset == 100
    assert log.epochs.entries() == [(1, 100), (2, 120)]


def test_an_empty_folder_begins_at_the_start_offset(logs: Logs) -> None:
    log, _ = recovered(logs, 0, start_offset=7)
    assert (log.start_offset, log.end_offset) == (7, 7)
    assert append(log, batch()).base_offset == 7


def test_indexes_without_a_log_are_removed(logs: Logs) -> None:
    log = filled(logs, 2)
    logs.crash(log)
    for suffix in (".index", ".timeindex", ".txnindex"):
        (logs.directory / f"{99:020d}{suffix}").write_bytes(b"")
    recovered(logs, 0)
    assert not [name for name in logs.names() if name.startswith(f"{99:020d}")]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_damaged_indexes_are_rebuilt(logs: Logs, suffix: str) -> None:
    log = filled(logs, 15)
    expected = read_all(log)
    logs.crash(log)
    for path in every_file(logs.directory, suffix):
        path.write_bytes(b"\xff" * 100 + bytes(1000))
    log, _ = recovered(logs, 0)
    assert read_all(log) == expected
    for offset in range(0, 45, 3):
        assert read_headers(log, offset)[0].base_offset == offset
    log.close()
    log = logs.open(CONFIG)
    assert read_all(log) == expected


def test_a_log_that_was_recovered_opens_as_after_a_clean_stop(logs: Logs) -> None:
    log = filled(logs)
    expected = read_all(log)
    logs.crash(log)
    request = {
        "directory": str(logs.directory),
        "recovery_point": 0,
        "start_offset": 0,
        "config": {"segment_bytes": 2000, "index_interval_bytes": 200},
    }
    replies = io.StringIO()
    main(io.StringIO(json.dumps(request) + "\n"), replies)
    assert json.loads(replies.getvalue()) == {
        "directory": str(logs.directory),
        "end_offset": 180,
        "recovery_point": 180,
        "start_offset": 0,
        "scanned_bytes": len(expected),
        "truncated_bytes": 0,
        "problem": None,
    }
    log = logs.open(CONFIG)
    assert read_all(log) == expected
    assert append(log, batch(3, producer=1, epoch=0, sequence=177)).duplicate


def test_a_child_process_recovers_one_partition_a_line(logs: Logs) -> None:
    log = filled(logs, 5)
    flush(log)
    whole = read_all(log)
    append(log, batch(3))
    logs.crash(log)
    path = next(every_file(logs.directory, ".log"))
    os.truncate(path, len(whole) + 10)
    lines = [
        {"directory": str(logs.directory), "recovery_point": 15, "start_offset": 0},
        {"directory": str(logs.directory), "recovery_point": 99, "start_offset": 0},
        {"directory": "/proc/nothing-0", "recovery_point": 0, "start_offset": 0},
    ]
    replies = []
    command = [sys.executable, "-m", "ottla.log.recovery"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        for line in lines:
            child.stdin.write(json.dumps(line) + "\n")
            child.stdin.flush()
            replies.append(json.loads(child.stdout.readline()))
        child.stdin.close()
        assert child.wait() == 0
        assert child.stderr.read() == ""
    first, second, third = replies
    assert (first["end_offset"], first["truncated_bytes"]) == (15, 10)
    assert "before its recovery point 99" in second["error"]
    assert third["error"]


def test_what_a_child_logs_is_not_a_reply(logs: Logs) -> None:
    log = filled(logs, 5)
    log.close()
    order = {"directory": str(logs.directory), "recovery_point": 15, "start_offset": 99}
    command = [sys.executable, "-m", "ottla.log.recovery"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdin.write(json.dumps(order) + "\n")
        child.stdin.flush()
        answer = json.loads(child.stdout.readline())
        child.stdin.close()
        assert child.stdout.read() == ""
        said = json.loads(child.stderr.read())
    assert (answer["start_offset"], answer["end_offset"]) == (99, 99)
    assert said["event"] == "log ends before its log start offset; deleting its segments"
    assert (said["level"], said["end_offset"], said["start_offset"]) == ("warning", 15, 99)


def test_a_child_says_why_the_system_refused(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.crash(filled(logs, 5))
    monkeypatch.setattr(os, "pwrite", refuse)
    replies = io.StringIO()
    order = {"directory": str(logs.directory), "recovery_point": 0, "start_offset": 0}
    main(io.StringIO(json.dumps(order) + "\n"), replies)
    reply = json.loads(replies.getvalue())
    assert reply["errno"] == errno.ENOSPC
    assert "No space" in reply["error"]


def refuse(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_child_whose_broker_has_gone_touches_nothing_more(tmp_path: Path) -> None:
    """The next broker may have opened the log already."""
    folder = tmp_path / "t-0"
    order = {"directory": str(folder), "recovery_point": 0, "start_offset": 0}
    subprocess.run(
        [sys.executable, "-c", ENDS_BEFORE_WORK], input=json.dumps(order), text=True, check=True
    )
    assert not folder.exists()


ENDS_BEFORE_WORK = """
import sys, threading
from ottla.log.recovery import child
line = next(child._orders(sys.stdin))
threading.Event().wait()  # a scan that never ends; the end of stdin ends it
child.main([line], sys.stdout)
"""


@pytest.mark.parametrize("clean", [True, False])
def test_files_that_were_being_deleted_or_made_are_removed(logs: Logs, clean: bool) -> None:
    log = filled(logs, 5)
    expected = read_all(log)
    log.close()
    for name in (
        f"{0:020d}.log.deleted",
        f"{0:020d}.snapshot.deleted",
        f"{0:020d}.log.cleaned",
        f"{0:020d}.index.cleaned",
        "leader-epoch-checkpoint.tmp",
    ):
        (logs.directory / name).write_bytes(b"left behind")
    log = logs.open(CONFIG, clean=clean)
    assert read_all(log) == expected
    assert not [name for name in logs.names() if name.endswith(("deleted", "cleaned", "tmp"))]


def test_segments_that_were_being_swapped_in_replace_the_old_ones(logs: Logs) -> None:
    log = filled(logs)
    bases = [segment.base_offset for segment in log.segments]
    compacted = read_all(log, 0, bases[2])[-len(batch(3)) :]
    rest = read_all(log, bases[2])
    log.close()
    (logs.directory / f"{0:020d}.log.swap").write_bytes(compacted)
    (logs.directory / f"{0:020d}.index.swap").write_bytes(b"")
    (logs.directory / f"{0:020d}.timeindex.swap").write_bytes(pack(">qi", NOW, bases[2] - 1))
    log = logs.open(CONFIG)
    assert read_all(log) == compacted + rest
    assert [segment.base_offset for segment in log.segments] == [0, *bases[2:]]
    assert not [name for name in logs.names() if name.endswith("swap")]


def test_swap_files_of_an_unfinished_split_are_removed(logs: Logs) -> None:
    log = filled(logs, 5)
    expected = read_all(log)
    log.close()
    (logs.directory / f"{0:020d}.log.swap").write_bytes(b"")
    (logs.directory / f"{0:020d}.log.cleaned").write_bytes(b"")
    log = logs.open(CONFIG)
    assert read_all(log) == expected
    assert not [name for name in logs.names() if name.endswith(("swap", "cleaned"))]


def test_a_corrupt_tail_after_a_clean_stop_is_not_truncated(logs: Logs) -> None:
    log = filled(logs, 5)
    log.close()
    path = next(every_file(logs.directory, ".log"))
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(CorruptLog):
        logs.open(CONFIG)


def test_a_damaged_epoch_checkpoint_is_said_to_be_damaged(logs: Logs) -> None:
    filled(logs, 5).close()
    (logs.directory / "leader-epoch-checkpoint").write_text("0\n1\nnonsense\n")
    with pytest.raises(CorruptLog, match="leader-epoch-checkpoint"):
        logs.open(CONFIG)


def test_a_producer_continues_after_a_crash_where_its_last_complete_batch_ended(logs: Logs) -> None:
    log = filled(logs, 10)
    logs.crash(log)
    path = next(every_file(logs.directory, ".log"))
    os.truncate(path, path.stat().st_size - 1)
    log, _ = recovered(logs, 0)
    end = log.end_offset
    assert append(log, batch(3, producer=1, epoch=0, sequence=end)).base_offset == end
    with pytest.raises(KafkaError):
        append(log, batch(3, producer=1, epoch=0, sequence=end + 6))
