"""Which logs are due for a compaction, what may be touched, and when a plan is dropped."""

from dataclasses import replace

import pytest

from ottla.log.compaction.plan import Plan, plan
from ottla.log.config import LogConfig
from ottla.log.log import Log
from tests.log.compacting import compacted, keyed
from tests.log.making import NOW, Logs, append

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=1000)
HOUR = 3_600_000


def written(logs: Logs, config: LogConfig = CONFIG, count: int = 10) -> Log:
    """A log whose segments hold one record each; the last one is sealed too."""
    log = logs.open(config)
    for at in range(count):
        now = NOW + at * HOUR
        append(log, keyed(("key", "v" * 100), timestamp=now), now=now)
        log.roll(NOW)
    return log


def planned(log: Log, first_dirty: int | None = None, now: int = NOW) -> Plan:
    found = plan(log, first_dirty, now)
    assert found is not None
    return found


def test_a_log_of_one_segment_has_nothing_to_compact(logs: Logs) -> None:
    log = logs.open(CONFIG)
    append(log, keyed(("a", "1")))
    assert plan(log, None, NOW) is None


def test_all_but_the_active_segment_may_be_compacted(logs: Logs) -> None:
    log = written(logs)
    found = planned(log)
    assert [each.base_offset for each in found.segments] == list(range(10))
    assert (found.first_dirty, found.end) == (0, 10)
    assert found.dirty_ratio == 1.0
    assert found.is_due


def test_the_high_watermark_bounds_a_compaction(logs: Logs) -> None:
    log = written(logs)
    log.high_watermark = 4
    assert planned(log).end == 4
    log.high_watermark = 0
    assert plan(log, None, NOW) is None


def test_an_open_transaction_bounds_a_compaction(logs: Logs) -> None:
    log = written(logs, count=3)
    append(log, keyed(("a", "1"), producer=1, epoch=0, sequence=0, transactional=True))
    log.roll(NOW)
    append(log, keyed(("a", "2")))
    log.roll(NOW)
    assert planned(log).end == 3


def test_what_is_clean_up_to_its_end_is_not_due(logs: Logs) -> None:
    log = written(logs)
    assert plan(log, 10, NOW) is None


def test_the_ratio_says_when_a_log_is_dirty_enough(logs: Logs) -> None:
    log = written(logs)
    assert planned(log, 4).dirty_ratio == pytest.approx(0.6)
    assert planned(log, 4).is_due
    assert planned(log, 5).dirty_ratio == pytest.approx(0.5)
    assert not planned(log, 5).is_due
    log.set_config(replace(CONFIG, min_cleanable_dirty_ratio=0.2))
    assert planned(log, 5).is_due


@pytest.mark.parametrize("checkpoint", [-1, 11, 1 << 40])
def test_a_checkpoint_outside_of_the_log_counts_for_nothing(logs: Logs, checkpoint: int) -> None:
    log = written(logs)
    assert planned(log, checkpoint).first_dirty == 0


def test_a_checkpoint_below_the_start_offset_is_raised_to_it(logs: Logs) -> None:
    log = written(logs)
    log.raise_start_offset(3)
    found = planned(log, 1)
    assert found.first_dirty == 3
    assert found.dirty_ratio == pytest.approx(0.7)


def test_young_records_are_left_alone(logs: Logs) -> None:
    log = written(logs, replace(CONFIG, min_compaction_lag_ms=2 * HOUR))
    found = planned(log, now=NOW + 8 * HOUR)
    assert found.end == 7
    assert plan(log, None, NOW + HOUR) is None
    assert plan(log, 7, NOW + 8 * HOUR) is None


def test_old_records_make_a_log_due_however_clean_it_is(logs: Logs) -> None:
    config = replace(CONFIG, max_compaction_lag_ms=5 * HOUR, min_cleanable_dirty_ratio=1.0)
    log = written(logs, config)
    assert not planned(log, 8, NOW + 12 * HOUR).is_due
    found = planned(log, 8, NOW + 14 * HOUR)
    assert found.overdue_ms == HOUR
    assert found.is_due
    log.close()
    assert planned(logs.open(config), 8, NOW + 14 * HOUR).overdue_ms == HOUR


def test_a_segment_of_a_compacted_log_is_sealed_in_time(logs: Logs) -> None:
    log = logs.open(replace(CONFIG, max_compaction_lag_ms=5 * HOUR))
    append(log, keyed(("a", "1")))
    assert not log.maintain(NOW + 5 * HOUR)
    assert log.maintain(NOW + 5 * HOUR + 1)
    append(log, keyed(("a", "2"), timestamp=NOW))
    later = NOW + 5 * HOUR + 1
    append(log, keyed(("a", "2"), timestamp=later), now=later)
    assert [each.base_offset for each in log.segments] == [0, 1, 2]
    log.set_config(LogConfig(segment_bytes=1000, max_compaction_lag_ms=5 * HOUR))
    assert not log.maintain(NOW + 12 * HOUR)


def test_a_plan_survives_appends_and_rolls(logs: Logs) -> None:
    log = written(logs)
    found = planned(log)
    append(log, keyed(("a", "1")))
    log.roll(NOW)
    assert found.still_holds


def test_a_plan_is_dropped_when_a_segment_of_it_is_gone(logs: Logs) -> None:
    log = written(logs)
    found = planned(log)
    log.raise_start_offset(1)
    assert found.still_holds
    log.maintain(NOW)
    assert not found.still_holds


def test_a_plan_is_dropped_when_the_log_was_truncated(logs: Logs) -> None:
    log = written(logs)
    append(log, keyed(("a", "1")))
    found = planned(log)
    log.truncate_to(10)
    assert not found.still_holds


def test_a_plan_is_dropped_when_the_policy_changed(logs: Logs) -> None:
    log = written(logs)
    found = planned(log)
    log.set_config(LogConfig())
    assert not found.still_holds


def test_a_plan_is_dropped_when_the_log_is_offline(logs: Logs) -> None:
    log = written(logs)
    found = planned(log)
    log.fail(RuntimeError("the disk failed"))
    assert not found.still_holds


def test_an_order_names_the_producers_whose_last_batch_may_be_met(logs: Logs) -> None:
    log = logs.open(CONFIG)
    append(log, keyed(("a", "1"), producer=1, epoch=3, sequence=0))
    append(log, keyed(("a", "1"), producer=2, epoch=0, sequence=0))
    log.roll(NOW)
    append(log, keyed(("a", "1"), producer=2, epoch=0, sequence=1))
    order = planned(log).order(NOW, memory=1, bytes_per_second=1.0)
    assert order.producers == {1: (0, 3)}
    assert order.later == [2]
    assert order.from_line(order.to_line().decode()) == order


def test_compacted_segments_can_be_compacted_again(logs: Logs) -> None:
    log = written(logs)
    compacted(log)
    assert [each.size > 0 for each in log.segments] == [False, True, False]
    assert plan(log, 10, NOW) is None
    assert planned(log, 0).end == 10
    compacted(log, 0)
    assert [each.size > 0 for each in log.segments] == [True, False]
