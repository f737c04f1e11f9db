"""Finding records by their timestamp."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.validation.checks import restamp_attributes
from ottla.records import Codec
from tests.log.making import NOW, Logs, append, batch

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100, message_timestamp_after_max_ms=2**62)


def filled(logs: Logs, timestamps: list[int], count: int = 3) -> Log:
    """Batches of three records each, whose timestamps count up from the given ones."""
    log = logs.open(SMALL)
    for timestamp in timestamps:
        append(log, batch(count, timestamp=timestamp, codec=Codec.GZIP))
    return log


def test_the_first_record_at_or_after_a_timestamp_is_found_inside_its_batch(logs: Logs) -> None:
    log = filled(logs, [10, 20, 30])
    assert log.offset_for_timestamp(0, 100) == (10, 0, 0)
    assert log.offset_for_timestamp(11, 100) == (11, 1, 0)
    assert log.offset_for_timestamp(13, 100) == (20, 3, 0)
    assert log.offset_for_timestamp(32, 100) == (32, 8, 0)
    assert log.offset_for_timestamp(33, 100) is None


def test_the_largest_timestamp_is_found_wherever_it_is(logs: Logs) -> None:
    log = filled(logs, [10, 500, 30, 500, 20])
    assert log.max_timestamp_offset(100) == (502, 5, 0)


def test_records_at_or_above_the_limit_are_not_found(logs: Logs) -> None:
    log = filled(logs, [10, 20, 30])
    assert log.offset_for_timestamp(20, 4) == (20, 3, 0)
    assert log.offset_for_timestamp(20, 3) is None
    assert log.max_timestamp_offset(8) is None


def test_what_lies_below_the_start_offset_is_not_found(logs: Logs) -> None:
    log = filled(logs, [10, 20, 30])
    log.raise_start_offset(4)
    assert log.offset_for_timestamp(0, 100) == (21, 4, 0)


def test_an_empty_log_has_no_timestamps(logs: Logs) -> None:
    log = logs.open()
    assert log.offset_for_timestamp(0, 100) is None
    assert log.max_timestamp_offset(100) is None


def test_bytes_that_are_no_records_do_not_stop_a_search(logs: Logs) -> None:
    log = filled(logs, [10])
    broken = batch(2, timestamp=20)
    broken[61:] = b"\xff" * (len(broken) - 61)
    restamp_attributes(broken, 0)
    log.append(broken, now=NOW, leader_epoch=0, from_client=False)  # as a log of an older version
    assert log.offset_for_timestamp(15, 100) == (21, 3, 0)


@pytest.mark.parametrize("clean", [True, False])
def test_lookups_are_the_same_after_a_restart(logs: Logs, clean: bool) -> None:
    timestamps = [NOW + (7 * i) % 50 for i in range(40)]
    log = filled(logs, timestamps, 1)
    expected = [log.offset_for_timestamp(NOW + i, 100) for i in range(-1, 52)]
    newest = log.max_timestamp_offset(100)
    if clean:
        log.close()
    logs.crash(log)
    log = logs.open(SMALL, clean=clean)
    assert [log.offset_for_timestamp(NOW + i, 100) for i in range(-1, 52)] == expected
    assert log.max_timestamp_offset(100) == newest


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_lookups_agree_with_a_search_of_all_records(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    timestamps = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=40))
    logs = Logs(tmp_path_factory.mktemp("lookup") / "t-0")
    log = filled(logs, timestamps, 2)
    records = [(base + i, 2 * at + i) for at, base in enumerate(timestamps) for i in range(2)]
    for wanted in range(-1, 63):
        segment_end = [found for found in records if found[0] >= wanted]
        found = log.offset_for_timestamp(wanted, 1000)
        assert (found and found[:2]) == (segment_end[0] if segment_end else None)
    newest = log.max_timestamp_offset(1000)
    assert newest is not None
    assert newest[:2] == max(records, key=lambda found: (found[0], -found[1]))
    logs.close()
