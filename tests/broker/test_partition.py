"""A partition's epochs and its high watermark, where terms end and logs are cut."""

import asyncio
from pathlib import Path

import pytest

from ottla.replication.follower import Following
from ottla.wire.errors import ErrorCode, KafkaError
from tests.broker.nodes import running, topic, write

LEADER = 99
WRITTEN = 10
KEPT = 3


def test_an_epoch_between_the_last_records_and_the_present_term_ends_with_the_log(
    tmp_path: Path,
) -> None:
    """Someone led in it and wrote nothing that is here: what a follower has of it must go."""

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            partition.lead(2, None)
            write(partition, WRITTEN)
            partition.lead(5, None)
            assert [partition.end_of_epoch(epoch) for epoch in (2, 3, 4, 5)] == [
                (2, WRITTEN),
                (2, WRITTEN),
                (2, WRITTEN),
                (5, WRITTEN),
            ]
            assert partition.end_of_epoch(6) is None
            assert partition.diverging_epoch(3, WRITTEN) == (2, WRITTEN)
            assert partition.diverging_epoch(2, WRITTEN) is None
            assert partition.diverging_epoch(2, WRITTEN + 1) == (2, WRITTEN)
            assert partition.diverging_epoch(5, WRITTEN) is None
            write(partition)
            assert partition.end_of_epoch(3) == (2, WRITTEN)
            assert partition.end_of_epoch(5) == (5, WRITTEN + 1)

    asyncio.run(live())


def test_an_empty_log_knows_the_present_term_and_none_before(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            partition.lead(5, None)
            assert [partition.end_of_epoch(epoch) for epoch in (3, 5, 6)] == [(3, 0), (5, 0), None]

    asyncio.run(live())


def test_a_follower_does_not_speak_for_a_term_that_is_not_in_its_log(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            partition.lead(2, None)
            write(partition, WRITTEN)
            partition.follow(5, Following(LEADER, 5))
            assert partition.end_of_epoch(3) is None
            with pytest.raises(KafkaError) as refusal:
                partition.diverging_epoch(3, WRITTEN)
            assert refusal.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

    asyncio.run(live())


def test_the_high_watermark_is_not_past_the_end_of_a_log_that_was_cut(tmp_path: Path) -> None:
    """It would be told to consumers, and make records committed that nobody else has."""

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            write(partition, WRITTEN)
            partition.follow(0, Following(LEADER, 0))
            assert partition.high_watermark == WRITTEN
            partition.log.truncate_to(KEPT)
            partition.was_truncated()
            assert (partition.high_watermark, partition.log.high_watermark) == (KEPT, KEPT)
            partition.mark(1, 0)
            partition.was_truncated()
            assert partition.high_watermark == 1

    asyncio.run(live())


def test_a_flush_that_was_owed_for_what_was_cut_is_owed_no_more(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, "t")
            write(partition, WRITTEN)
            partition._owed = WRITTEN
            partition.log.truncate_to(KEPT)
            partition.was_truncated()
            assert partition._owed == KEPT

    asyncio.run(live())
