import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.audit.scan import MOST_COUNTS, LogOrder, ScannedFile, Scanner, ScanOrder
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.records import Codec
from ottla.records.control import MarkerType
from tests.log.making import NOW, Logs, append, batch, marker

WINDOW = 1000
START = NOW - NOW % WINDOW


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    made = Logs(tmp_path / "orders-0")
    made.directory.mkdir()
    yield made
    made.close()


def scan(
    log: Log, start: int = 0, end: int | None = None, scanner: Scanner | None = None
) -> ScannedFile:
    stop = log.last_stable_offset if end is None else end
    aborted = log.aborted_transactions(start, stop)
    order = LogOrder(str(log.directory), start, stop, aborted)
    return (scanner or Scanner()).scan(order, WINDOW)


def total(scanned: ScannedFile) -> int:
    assert scanned.error is None
    return sum(n for *_, n in scanned.counts)


def test_records_are_counted_by_the_window_of_their_batch(logs: Logs) -> None:
    log = logs.open()
    append(log, batch(3, timestamp=START))
    append(log, batch(4, timestamp=START + 500, codec=Codec.ZSTD))
    append(log, batch(2, timestamp=START + 1000))
    found = scan(log)
    assert sorted(found.counts) == [(START, START, 7), (START + 1000, START + 1000, 2)]
    assert (found.begin, found.end, found.reached) == (0, 9, 9)


def test_a_batch_over_two_windows_is_told_as_both(logs: Logs) -> None:
    log = logs.open()
    append(log, batch(4, timestamp=START + 998))
    assert scan(log).counts == [(START, START + 1000, 4)]


def test_with_log_append_time_the_batch_has_one_timestamp(logs: Logs) -> None:
    log = logs.open(LogConfig(message_timestamp_type="LogAppendTime"))
    append(log, batch(4, timestamp=START - 5000), now=START + 3000)
    assert scan(log).counts == [(START + 3000, START + 3000, 4)]


def test_committed_transactions_count_and_aborted_ones_do_not(logs: Logs) -> None:
    log = logs.open()
    for producer, kind, count in ((1, MarkerType.COMMIT, 3), (2, MarkerType.ABORT, 5)):
        append(log, batch(count, producer=producer, epoch=0, sequence=0, transactional=True))
        log.append_marker(marker(kind, producer=producer), now=NOW, leader_epoch=0)
    append(log, batch(2, producer=2, epoch=0, sequence=5, transactional=True))
    log.append_marker(marker(MarkerType.COMMIT, producer=2), now=NOW, leader_epoch=0)
    found = scan(log)
    assert total(found) == 5
    assert (found.begin, found.end) == (0, 12)  # without the last marker
    assert found.reached == log.end_offset


def test_an_open_transaction_ends_what_is_counted(logs: Logs) -> None:
    log = logs.open()
    append(log, batch(3))
    append(log, batch(5, producer=1, epoch=0, sequence=0, transactional=True))
    append(log, batch(4))
    found = scan(log)
    assert (total(found), found.reached) == (3, 3)
    log.append_marker(marker(MarkerType.ABORT, producer=1), now=NOW, leader_epoch=0)
    assert total(scan(log, 3)) == 4


def test_a_transaction_aborted_over_the_start_of_a_scan_does_not_count(logs: Logs) -> None:
    log = logs.open()
    append(log, batch(2, producer=1, epoch=0, sequence=0, transactional=True))
    append(log, batch(1, producer=2, epoch=0, sequence=0, transactional=True))
    append(log, batch(2, producer=1, epoch=0, sequence=2, transactional=True))
    log.append_marker(marker(MarkerType.ABORT, producer=1), now=NOW, leader_epoch=0)
    assert log.last_stable_offset == 2
    assert total(scan(log)) == 0
    log.append_marker(marker(MarkerType.COMMIT, producer=2), now=NOW, leader_epoch=0)
    assert total(scan(log, 2)) == 1


def test_what_a_start_offset_cuts_off_a_batch_does_not_count(logs: Logs) -> None:
    log = logs.open()
    append(log, batch(10))
    found = scan(log, 4)
    assert (total(found), found.begin, found.end) == (6, 4, 10)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.data())
def test_scans_in_pieces_count_what_one_scan_counts(sizes: list[int], data: st.DataObject) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        made = Logs(Path(folder) / "orders-0")
        made.directory.mkdir()
        log = made.open(LogConfig(segment_bytes=600))
        scanner = Scanner()
        reached, counted = 0, 0
        for number, size in enumerate(sizes):
            append(log, batch(size, timestamp=START + number * 300))
            if data.draw(st.booleans()):
                if data.draw(st.booleans()):
                    scanner = Scanner()  # another child
                found = scan(log, reached, scanner=scanner)
                reached, counted = found.reached, counted + total(found)
                assert reached == log.end_offset
        counted += total(scan(log, reached, scanner=scanner))
        assert counted == sum(sizes) == total(scan(log))
        made.close()


def test_an_answer_does_not_grow_without_bounds(logs: Logs) -> None:
    log = logs.open()
    for number in range(MOST_COUNTS + 10):
        append(log, batch(1, timestamp=START + number * WINDOW, size=1))
    scanner = Scanner()
    first = scan(log, scanner=scanner)
    assert len(first.counts) == first.reached == MOST_COUNTS
    assert total(scan(log, first.reached, scanner=scanner)) == 10


def test_a_segment_that_was_compacted_meanwhile_is_read_from_its_start(logs: Logs) -> None:
    log = logs.open()
    for _ in range(3):
        append(log, batch(2))
    scanner = Scanner()
    order = LogOrder(str(log.directory), 0, 4)
    assert total(scanner.scan(order, WINDOW)) == 4
    (segment,) = logs.directory.glob("*.log")
    data = segment.read_bytes()
    cleaned = segment.with_suffix(".cleaned")
    cleaned.write_bytes(data[len(data) // 3 :])
    cleaned.rename(segment)
    found = scanner.scan(LogOrder(str(log.directory), 4, 6), WINDOW)
    assert (total(found), found.reached) == (2, 6)


def test_a_damaged_log_is_reported_and_the_others_are_counted(logs: Logs, tmp_path: Path) -> None:
    log = logs.open()
    append(log, batch(3))
    other = Logs(tmp_path / "other-0")
    other.directory.mkdir()
    damaged = other.open()
    append(damaged, batch(3))
    (segment,) = other.directory.glob("*.log")
    with segment.open("r+b") as file:
        file.seek(8)
        file.write(b"\0\0\0\1")
    order = ScanOrder(
        WINDOW,
        [
            LogOrder(str(other.directory), 0, 3),
            LogOrder(str(tmp_path / "nowhere"), 0, 3),
            LogOrder(str(log.directory), 0, 3),
        ],
    )
    child = subprocess.run(
        [sys.executable, "-m", "ottla.audit.scan"],
        input=msgspec.json.encode(order) + b"\n",
        capture_output=True,
        check=True,
        env={**os.environ},
    )
    bad, gone, good = msgspec.json.decode(child.stdout, type=list[ScannedFile])
    assert bad.error is not None
    assert "no batch at 0" in bad.error
    assert gone.error is not None
    assert total(good) == 3
    other.close()
