"""Audited clients of aiokafka on a real broker."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from aiokafka import TopicPartition  # type: ignore[import-untyped]  # ships no type marker

from ottla.audit.aiokafka import AuditedConsumer, AuditedProducer
from ottla.audit.check import AuditReport
from testkit.waiting import stretched
from tests.audit.auditing import INTERVAL_MS, Audited, between, of_consumer, produced, stored


def producer(audited: Audited, **settings: Any) -> AuditedProducer:
    return AuditedProducer(
        bootstrap_servers=audited.bootstrap, audit_interval_ms=INTERVAL_MS, **settings
    )


def consumer(audited: Audited, group: str = "billing") -> AuditedConsumer:
    return AuditedConsumer(
        bootstrap_servers=audited.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        audit_interval_ms=INTERVAL_MS,
    )


def run(work: Coroutine[None, None, None]) -> None:
    async def within_patience() -> None:
        async with asyncio.timeout(stretched(30)):
            await work

    asyncio.run(within_patience())


def stored_in_the_end(audited: Audited, topic: str, count: int) -> AuditReport:
    return audited.report_when(topic, lambda report: stored(report) == count)


async def read(reading: AuditedConsumer, count: int) -> int:
    """Read at least some records, by all ways there are; the last one's offset."""
    await reading.getone()
    record = await anext(reading)
    left, offset = count - 2, record.offset
    while left:
        for records in (await reading.getmany(timeout_ms=500, max_records=left)).values():
            left -= len(records)
            offset = records[-1].offset
    return int(offset)


def test_when_nothing_happens_all_tiers_agree(audited: Audited, topic: str) -> None:
    async def work() -> None:
        async with producer(audited) as sending:
            for _ in range(20):
                await sending.send(topic, b"x")
            await sending.send_and_wait(topic, b"x")
            batch = sending.create_batch()
            for _ in range(4):
                batch.append(timestamp=None, key=None, value=b"x")
            await (await sending.send_batch(batch, topic, partition=0))
        reading = consumer(audited)
        async with reading:
            reading.assign([TopicPartition(topic, 0)])
            await read(reading, 25)

    run(work())
    report = stored_in_the_end(audited, topic, 25)
    assert produced(report) == 25
    assert between(report) == (0, 0, 0)
    assert of_consumer(report, "billing") == (25, 0, 0, 0)
    assert report.notes == []


def test_skipped_and_repeated_records_are_counted_exactly(audited: Audited, topic: str) -> None:
    async def work() -> None:
        async with producer(audited) as sending:
            for _ in range(20):
                await sending.send_and_wait(topic, b"x")
        for group, forward in (("skips", 3), ("repeats", -4)):
            reading = consumer(audited, group)
            async with reading:
                partition = TopicPartition(topic, 0)
                reading.assign([partition])
                last = await read(reading, 10)
                reading.seek(partition, last + 1 + forward)
                await read(reading, 10 - forward)

    run(work())
    report = stored_in_the_end(audited, topic, 20)
    assert of_consumer(report, "skips") == (17, 3, 0, 0)
    assert of_consumer(report, "repeats") == (24, 0, 4, 0)


def test_aborted_transactions_count_as_neither(audited: Audited, topic: str) -> None:
    async def work() -> None:
        async with producer(audited, transactional_id=topic) as sending:
            for count, commit in ((5, True), (8, False), (2, True)):
                await sending.begin_transaction()
                for _ in range(count):
                    await sending.send(topic, b"x")
                await (sending.commit_transaction() if commit else sending.abort_transaction())
        reading = consumer(audited)
        async with reading:
            reading.assign([TopicPartition(topic, 0)])
            await read(reading, 7)

    run(work())
    report = stored_in_the_end(audited, topic, 7)
    assert produced(report) == 7
    assert between(report) == (0, 0, 0)
    assert of_consumer(report, "billing") == (7, 0, 0, 0)


def test_a_batch_over_two_windows_is_split_by_those_who_saw_its_records(
    audited: Audited, topic: str
) -> None:
    now = time.time_ns() // 1_000_000
    boundary = now - now % 60_000

    async def work() -> None:
        async with producer(audited, linger_ms=500) as sending:
            for number in range(10):
                await sending.send(topic, b"x", timestamp_ms=boundary - 3 + number)

    run(work())
    report = stored_in_the_end(audited, topic, 10)
    assert [(row.produced, row.stored) for row in report.rows] == [(3, 3), (7, 7)]


def test_with_log_append_time_the_brokers_clock_counts(audited: Audited, topic: str) -> None:
    audited.create(topic, message_timestamp_type="LogAppendTime")

    async def work() -> None:
        async with producer(audited) as sending:
            await sending.send(topic, b"x", timestamp_ms=1_000_000)

    run(work())
    report = stored_in_the_end(audited, topic, 1)
    assert between(report) == (0, 0, 0)
    assert report.rows[-1].window > 1_000_000


def test_a_failed_delivery_is_not_counted(audited: Audited, topic: str) -> None:
    audited.create(topic, max_message_bytes="1000")

    async def work() -> None:
        async with producer(audited) as sending:
            await sending.send_and_wait(topic, b"x")
            with pytest.raises(Exception, match="Large"):
                await sending.send_and_wait(topic, b"x" * 2000)

    run(work())
    assert produced(stored_in_the_end(audited, topic, 1)) == 1
