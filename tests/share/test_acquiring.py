"""What one fetch acquires: modes, limits, throttled deliveries, aborted and missing records.

The expected ranges are those of Kafka's SharePartition.
"""

from __future__ import annotations

from ottla.share.aborted import BatchHead, aborted_batches
from ottla.share.acknowledging import acknowledge
from ottla.share.acquiring import acquire
from ottla.share.partition import SharePartition
from ottla.share.states import (
    Acknowledgement,
    AcknowledgeType,
    AcquireMode,
    LogBatch,
    ShareSettings,
    StoredBatch,
)

THREE = [LogBatch(0, 9), LogBatch(10, 19), LogBatch(20, 29)]
NOW = 1000


def got(
    partition: SharePartition,
    max_records: int,
    *,
    batches: list[LogBatch] = THREE,
    batch_size: int = 100,
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
    member: str = "m",
) -> list[tuple[int, int, int]]:
    offset = partition.next_fetch_offset(NOW)
    return [
        (each.first, each.last, each.delivery_count)
        for each in acquire(
            partition,
            NOW,
            member,
            fetch_offset=offset,
            batches=[each for each in batches if each.last >= offset],
            max_records=max_records,
            batch_size=batch_size,
            mode=mode,
        )
    ]


def give_back(partition: SharePartition, first: int, last: int) -> None:
    given = [Acknowledgement(first, last, (AcknowledgeType.RELEASE,))]
    write = acknowledge(partition, NOW, "m", given)
    assert write is not None
    partition.written(write.number, NOW)


def test_batch_optimized_rounds_up_to_the_end_of_the_producers_batch() -> None:
    partition = SharePartition(ShareSettings(), 0)
    assert got(partition, 5) == [(0, 9, 1)]
    assert got(partition, 11) == [(10, 29, 1)]
    assert partition.in_flight == 30


def test_batch_optimized_divides_at_the_producers_batches_by_the_batch_size() -> None:
    assert got(SharePartition(ShareSettings(), 0), 100, batch_size=5) == [
        (0, 9, 1),
        (10, 19, 1),
        (20, 29, 1),
    ]
    assert got(SharePartition(ShareSettings(), 0), 100, batch_size=15) == [(0, 19, 1), (20, 29, 1)]


def test_record_limit_leaves_the_rest_of_the_batch_available() -> None:
    partition = SharePartition(ShareSettings(), 0)
    assert got(partition, 4, mode=AcquireMode.RECORD_LIMIT) == [(0, 3, 1)]
    assert partition.next_fetch_offset(NOW) == 4
    assert got(partition, 4, mode=AcquireMode.RECORD_LIMIT) == [(4, 7, 1)]
    assert got(partition, 4, mode=AcquireMode.RECORD_LIMIT) == [(8, 9, 1), (10, 11, 1)]


def test_at_the_limit_of_locks_only_what_is_in_flight_can_be_acquired() -> None:
    partition = SharePartition(ShareSettings(max_record_locks=10), 0)
    assert got(partition, 100) == [(0, 9, 1)]
    assert not partition.can_acquire(NOW)
    give_back(partition, 3, 5)
    assert partition.can_acquire(NOW)
    assert got(partition, 100) == [(3, 5, 2)]


def test_records_that_fail_often_are_offered_in_ever_smaller_parts_and_at_last_alone() -> None:
    partition = SharePartition(ShareSettings(delivery_count_limit=5), 0)
    one = [LogBatch(0, 15)]
    assert got(partition, 100, batches=one) == [(0, 15, 1)]
    for count in (2, 3):
        give_back(partition, 0, 15)
        assert got(partition, 100, batches=one) == [(0, 15, count)]
    give_back(partition, 0, 15)
    assert got(partition, 100, batches=one) == [(0, 7, 4)]
    give_back(partition, 0, 7)
    assert got(partition, 100, batches=one) == [(0, 0, 5)]
    assert got(partition, 100, batches=one) == [(1, 1, 5)]
    give_back(partition, 0, 1)
    assert partition.start_offset == 2, "the limit is reached: they are archived"


def test_what_the_log_does_not_have_is_passed_over() -> None:
    partition = SharePartition(ShareSettings(), 0, [StoredBatch(2, 9, 0, 1)])
    assert partition.next_fetch_offset(NOW) == 0
    assert got(partition, 100, batches=THREE[1:]) == [(10, 29, 1)]
    assert partition.start_offset == 10


def test_a_loaded_partition_fetches_its_holes_again() -> None:
    stored = [StoredBatch(0, 4, 2, 1), StoredBatch(10, 19, 2, 1)]
    partition = SharePartition(ShareSettings(), 0, stored)
    assert partition.start_offset == 5
    assert got(partition, 100) == [(5, 9, 1), (20, 29, 1)]


def test_records_of_aborted_transactions_are_archived() -> None:
    heads = [
        BatchHead(0, 9, 7, True),
        BatchHead(10, 19, 8, True),
        BatchHead(20, 20, 7, True, True),
        BatchHead(21, 29, 7, True),
    ]
    gone = list(aborted_batches(heads, [(7, 0)]))
    assert gone == [LogBatch(0, 9)]
    partition = SharePartition(ShareSettings(), 0)
    acquired = acquire(
        partition,
        NOW,
        "m",
        fetch_offset=0,
        batches=[LogBatch(head.base, head.last) for head in heads],
        max_records=100,
        batch_size=100,
        aborted=gone,
    )
    assert [tuple(each) for each in acquired] == [(10, 29, 1)]
    assert partition.start_offset == 10
