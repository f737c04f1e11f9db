"""The broker's tier through kill -9 and through the loss of a log's tail, with real processes."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.audit.confluent import AuditedProducer
from ottla.broker.audit.log_counts import AUDIT_OFFSETS
from ottla.wire.batch import headers
from testkit.process import BrokerProcess
from testkit.waiting import stretched, until
from tests.audit.auditing import (
    INTERVAL_MS,
    Audited,
    between,
    produced,
    stored,
)

SOON = {"ottla.audit.enable": "true", "ottla.audit.interval.ms": str(INTERVAL_MS)}
LATER = {"ottla.audit.enable": "true", "ottla.audit.interval.ms": "3600000"}


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path, SOON)
    try:
        yield broker
    finally:
        broker.kill()


def producer(broker: BrokerProcess) -> AuditedProducer:
    return AuditedProducer(
        {"bootstrap.servers": broker.bootstrap, "acks": "all", "enable.idempotence": True},
        audit_interval_ms=INTERVAL_MS,
    )


def produce(sending: AuditedProducer, topic: str, count: int) -> None:
    """One batch for each record."""
    for _ in range(count):
        sending.produce(topic, b"x", partition=0)
        assert sending.flush(stretched(30)) == 0


def cut_batches(broker: BrokerProcess, topic: str, count: int) -> None:
    """Take the last batches from a log, as the loss of power does with what was not flushed."""
    (segment,) = (broker.data / f"{topic}-0").glob("*.log")
    places = [at for at, _ in headers(memoryview(segment.read_bytes()))]
    with segment.open("r+b") as file:
        file.truncate(places[-count])


def await_checkpoint(broker: BrokerProcess, offset: int) -> None:
    """Wait until the broker knows after a crash that it has counted so far."""
    checkpoint = broker.data / AUDIT_OFFSETS
    until(
        lambda: checkpoint.exists() and f" 0 {offset}\n" in checkpoint.read_text(),
        f"{AUDIT_OFFSETS} says {offset}",
    )


def test_kills_under_load_lose_and_double_no_count(process: BrokerProcess) -> None:
    process.start()
    audited = Audited(process.bootstrap)
    with producer(process) as sending:
        for _ in range(3):
            until = time.monotonic() + 0.7
            while time.monotonic() < until:
                sending.produce("orders", b"x", partition=0)
                sending.poll(0.001)
            process.kill()
            process.start()
        assert sending.flush(stretched(30)) == 0
    report = audited.report_when("orders", lambda report: 0 < produced(report) == stored(report))
    assert produced(report) == stored(report) > 100
    assert between(report) == (0, 0, 0)
    assert report.missing == 0
    assert report.notes == []


def test_acknowledged_records_that_a_crash_took_are_missing(process: BrokerProcess) -> None:
    """What no event has told of when the crash came, the producer's counts prove."""
    process.settings = LATER
    process.start()
    audited = Audited(process.bootstrap)
    with producer(process) as sending:
        produce(sending, "orders", 10)
        process.kill()
        cut_batches(process, "orders", 3)
        process.settings = SOON
        process.start()
    with producer(process) as sending:
        produce(sending, "orders", 5)
    report = audited.report_when("orders", lambda report: stored(report) == 12)
    assert (produced(report), stored(report)) == (15, 12)
    assert between(report) == (3, 0, 0)
    assert report.missing == 3


def test_counted_records_that_a_crash_took_are_told_by_the_broker(process: BrokerProcess) -> None:
    process.start()
    audited = Audited(process.bootstrap)
    with producer(process) as sending:
        produce(sending, "orders", 10)
        await_checkpoint(process, 10)
        process.kill()
        cut_batches(process, "orders", 4)
        process.start()
        report = audited.report_when("orders", lambda report: report.lost > 0)
        assert report.lost == report.missing == 4
        # Another note may say that the producer, which could not report meanwhile, was silent.
        assert any("offsets 6 to 9 of partition 0" in note for note in report.notes)
