"""Compaction as a process of its own: orders in, replies out, and an end with its broker."""

import errno
import io
import subprocess
import sys
import tracemalloc

import pytest

from ottla.log.compaction.child import PacedFiles, main
from ottla.log.compaction.cleaner import compact
from ottla.log.compaction.offset_map import ENTRY_BYTES, OffsetMap
from ottla.log.compaction.order import Cleaned, Failed, Finished, Order, reply_from_line
from ottla.log.compaction.plan import Plan, plan
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.storage.files import Files
from tests.log.compacting import MEMORY, keyed, offsets
from tests.log.making import NOW, Logs, append, flush

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=20_000)


def planned(logs: Logs, count: int = 200) -> Plan:
    log = logs.open(CONFIG)
    for at in range(count):
        append(log, keyed((f"key-{at % 10}", "v" * 1000), timestamp=NOW + at))
    log.roll(NOW)
    flush(log)
    found = plan(log, 0, NOW)
    assert found is not None
    return found


def order_for(found: Plan, bytes_per_second: float = float("inf")) -> Order:
    return found.order(NOW, memory=MEMORY, bytes_per_second=bytes_per_second)


def child() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "ottla.log.compaction"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_child_process_compacts_one_log_a_line(logs: Logs) -> None:
    found = planned(logs)
    line = order_for(found).to_line()
    with child() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line)
        process.stdin.flush()
        while isinstance(reply := reply_from_line(process.stdout.readline()), Cleaned):
            found.carry_out(reply, NOW)
        assert isinstance(reply, Finished)
        assert (reply.first_dirty, reply.messages_written) == (200, 10)
        process.stdin.write(line)
        process.stdin.flush()
        reply = reply_from_line(process.stdout.readline())
        assert isinstance(reply, Failed), "the order names segments that are gone"
        process.stdin.close()
        assert process.wait() == 0
    assert offsets(found.log) == list(range(190, 200))


def test_a_child_ends_when_its_broker_does(logs: Logs) -> None:
    line = order_for(planned(logs), bytes_per_second=1_000_000.0).to_line()
    with child() as process:
        _, told = process.communicate(line)
        assert (process.returncode, told) == (1, b"")


def test_a_child_without_a_reader_ends_silently(logs: Logs) -> None:
    line = order_for(planned(logs)).to_line()
    with child() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(line)
        process.stdin.flush()
        assert process.stderr.read() == b""
        assert process.wait() == 1


def test_a_cleaned_file_that_exists_is_not_overwritten(logs: Logs) -> None:
    found = planned(logs)
    path = logs.directory / f"{0:020d}.log.cleaned"
    path.write_bytes(b"another process is at it")
    replies = io.StringIO()
    requests = io.StringIO(order_for(found).to_line().decode())
    main(requests, replies, PacedFiles(lambda: True))
    reply = reply_from_line(replies.getvalue().encode())
    assert isinstance(reply, Failed)
    assert reply.errno == errno.EEXIST
    assert path.read_bytes() == b"another process is at it"


def test_a_log_that_cannot_be_compacted_is_reported_and_the_next_is_done(logs: Logs) -> None:
    bad = planned(logs)
    path = logs.directory / f"{0:020d}.log"
    damaged = bytearray(path.read_bytes())
    damaged[500] ^= 1
    path.write_bytes(damaged)
    others = Logs(logs.directory.with_name("orders-4"))
    good = planned(others)
    lines = order_for(bad).to_line() + order_for(good).to_line()
    replies = io.StringIO()
    main(io.StringIO(lines.decode()), replies, PacedFiles(lambda: True))
    others.close()
    told = [reply_from_line(each.encode()) for each in replies.getvalue().splitlines()]
    assert isinstance(told[0], Failed)
    assert "invalid CRC" in told[0].reason
    assert isinstance(told[-1], Finished)


def test_a_compaction_goes_no_faster_than_allowed(logs: Logs) -> None:
    found = planned(logs)
    slept: list[float] = []
    clock = 100.0

    def sleep(seconds: float) -> None:
        nonlocal clock
        clock += seconds
        slept.append(seconds)

    files = PacedFiles(lambda: True, lambda: clock, sleep)
    order = order_for(found, bytes_per_second=50_000.0)
    files.bytes_per_second = order.bytes_per_second
    finished = list(compact(order, files))[-1]
    assert isinstance(finished, Finished)
    # The dirty part is read twice: for its keys, and to be copied.
    moved = 2 * finished.bytes_read + finished.bytes_written
    assert sum(slept) == pytest.approx(moved / 50_000, rel=0.05)


def test_a_compaction_ends_with_its_broker(logs: Logs) -> None:
    found = planned(logs)
    with pytest.raises(SystemExit):
        list(compact(order_for(found), PacedFiles(lambda: False)))


@pytest.mark.parametrize("size", [8, 40, 41, 500])
def test_the_map_takes_no_more_memory_than_it_may(size: int) -> None:
    memory = 8 << 20
    tracemalloc.start()
    offsets_of = OffsetMap(memory)
    at = 0
    while offsets_of.put(at.to_bytes(size, "big"), at + (1 << 40)):
        at += 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(offsets_of) == memory // ENTRY_BYTES
    assert memory // 2 < peak <= memory


def test_memory_does_not_grow_with_the_log(logs: Logs) -> None:
    def peak_of(log: Log) -> int:
        found = plan(log, 0, NOW)
        assert found is not None
        order = found.order(NOW, memory=64 << 10, bytes_per_second=float("inf"))
        tracemalloc.start()
        for _ in compact(order, Files()):
            pass
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        for path in logs.directory.glob("*.cleaned"):
            path.unlink()
        return peak

    log = logs.open(LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=3 << 20))
    peaks = []
    for megabytes in (4, 16):
        while log.size < megabytes << 20:
            append(log, keyed(*[(f"{log.end_offset + at}", "v" * 1000) for at in range(200)]))
        log.roll(NOW)
        flush(log)
        peaks.append(peak_of(log))
    assert peaks[1] < 1.2 * peaks[0] < 8 << 20
