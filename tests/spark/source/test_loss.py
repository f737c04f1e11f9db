from ottla.client import TopicPartition
from pyspark_ottla.source.loss import Bounds, LossCheck, available, vanished

P = TopicPartition("t", 0)


def compared(start: int, end: int, log: Bounds | None, *, goes_on: bool = False) -> LossCheck:
    logs = {} if log is None else {P: log}
    return available({P: start}, {P: end}, logs, goes_on=goes_on)


def test_what_is_in_the_log_is_no_loss() -> None:
    assert compared(3, 7, Bounds(3, 7)) == LossCheck({P: 3}, {P: 7}, [])
    assert compared(3, 7, Bounds(0, 9)) == LossCheck({P: 3}, {P: 7}, [])


def test_what_retention_cut_is_named_and_the_rest_is_left() -> None:
    found = compared(3, 7, Bounds(5, 9))
    assert found.losses == ["offsets 3 to 4 of t-0 no longer exist: the log starts at offset 5"]
    assert (found.start, found.end) == ({P: 5}, {P: 7})


def test_a_stretch_that_was_cut_as_a_whole_is_empty() -> None:
    found = compared(3, 7, Bounds(20, 30))
    assert found.losses == ["offsets 3 to 6 of t-0 no longer exist: the log starts at offset 20"]
    assert found.start == found.end


def test_an_end_after_the_logs_end_is_a_loss() -> None:
    found = compared(3, 12, Bounds(0, 9))
    assert found.losses == ["t-0 cannot be read up to offset 12, but its log ends at offset 9"]
    assert (found.start, found.end) == ({P: 3}, {P: 9})


def test_a_start_after_the_logs_end_reads_nothing_that_was_not_asked_for() -> None:
    found = compared(50, 60, Bounds(0, 9))
    assert "t-0 cannot be read from offset 50 on, but its log ends at offset 9" in found.losses[0]
    assert found.start == found.end


def test_a_topic_that_was_recreated_is_read_from_its_start_by_a_query_that_continues() -> None:
    found = compared(50, 9, Bounds(0, 9), goes_on=True)
    assert len(found.losses) == 1
    assert (found.start, found.end) == ({P: 0}, {P: 9})
    grown = compared(50, 9, Bounds(0, 80), goes_on=True)
    assert (grown.start, grown.end) == ({P: 0}, {P: 9})


def test_a_batch_of_the_old_log_reads_nothing_of_the_new_one() -> None:
    found = compared(50, 60, Bounds(0, 9), goes_on=True)
    assert len(found.losses) == 1
    assert found.start == found.end


def test_a_partition_that_vanished_is_named() -> None:
    assert compared(3, 7, None).losses == [
        "t-0 no longer exists: its offsets 3 to 6 cannot be read"
    ]
    assert compared(7, 7, None).losses == []
    assert vanished({P: 7}, {}) == ["t-0 no longer exists: what came after offset 7 cannot be read"]
    assert vanished({P: 7}, {P: 9}) == []
