"""Audited clients of confluent-kafka on a real broker: losses, doubles and delays on purpose."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from ottla.audit.confluent import AuditedConsumer, AuditedProducer
from testkit.waiting import stretched
from tests.audit.auditing import (
    INTERVAL_MS,
    Audited,
    between,
    of_consumer,
    produced,
    stored,
)


def producer(audited: Audited, **settings: object) -> AuditedProducer:
    return AuditedProducer(
        {"bootstrap.servers": audited.bootstrap, "client.id": "shop", **_dotted(settings)},
        audit_interval_ms=INTERVAL_MS,
    )


def produce(audited: Audited, topic: str, count: int) -> None:
    with producer(audited) as sending:
        for number in range(count):
            sending.produce(topic, b"x", partition=0, key=str(number))
        assert sending.flush(20) == 0


@contextmanager
def consumer(audited: Audited, topic: str, group: str) -> Iterator[AuditedConsumer]:
    """A consumer of partition 0, from its beginning or from what it has committed."""
    reading = AuditedConsumer(
        {
            "bootstrap.servers": audited.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        },
        audit_interval_ms=INTERVAL_MS,
    )
    reading.assign([TopicPartition(topic, 0)])
    try:
        yield reading
    finally:
        reading.close()


def read(reading: AuditedConsumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + stretched(20)
    while len(found) < count and time.monotonic() < deadline:
        message = reading.poll(0.1)
        if message is not None:
            found.append(message)
    assert len(found) == count
    return found


def _dotted(settings: dict[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def test_when_nothing_happens_all_tiers_agree(audited: Audited, topic: str) -> None:
    produce(audited, topic, 100)
    with consumer(audited, topic, "billing") as reading:
        assert len(reading.consume(60, 10)) == 60
        read(reading, 40)
    report = audited.report_when(topic, lambda report: stored(report) == 100)
    assert produced(report) == stored(report) == 100
    assert between(report) == (0, 0, 0)
    assert of_consumer(report, "billing") == (100, 0, 0, 0)
    assert report.missing == 0
    assert report.notes == []


def test_a_record_that_was_sent_twice_is_a_duplicate(audited: Audited, topic: str) -> None:
    produce(audited, topic, 10)
    again = Producer({"bootstrap.servers": audited.bootstrap})
    for _ in range(3):
        again.produce(topic, b"x", partition=0)
    again.flush()
    report = audited.report_when(topic, lambda report: stored(report) == 13)
    assert between(report) == (0, 3, 0)


def test_what_a_consumer_skips_is_missing(audited: Audited, topic: str) -> None:
    produce(audited, topic, 20)
    with consumer(audited, topic, "billing") as reading:
        last = read(reading, 5)[-1].offset()
        assert last is not None
        reading.seek(TopicPartition(topic, 0, last + 1 + 4))
        read(reading, 11)
    report = audited.report_when(topic, lambda report: stored(report) == 20)
    assert of_consumer(report, "billing") == (16, 4, 0, 0)
    assert report.missing == 4


def test_what_a_consumer_reads_again_is_duplicate(audited: Audited, topic: str) -> None:
    produce(audited, topic, 20)
    with consumer(audited, topic, "billing") as reading:
        read(reading, 20)
        reading.seek(TopicPartition(topic, 0, 13))
        read(reading, 7)
    report = audited.report_when(topic, lambda report: stored(report) == 20)
    assert of_consumer(report, "billing") == (27, 0, 7, 0)
    assert report.missing == 0


def test_what_a_consumer_has_not_reached_is_late_until_it_has(audited: Audited, topic: str) -> None:
    produce(audited, topic, 10)
    audited.report_when(topic, lambda report: stored(report) == 10)
    produce(audited, topic, 7)
    with consumer(audited, topic, "billing") as reading:
        read(reading, 10)
        reading.commit(asynchronous=False)
    report = audited.report_when(topic, lambda report: stored(report) == 17)
    assert of_consumer(report, "billing") == (10, 0, 0, 7)
    assert report.missing == 0
    with consumer(audited, topic, "billing") as reading:
        read(reading, 7)
    assert of_consumer(audited.report(topic), "billing") == (17, 0, 0, 0)


def test_aborted_transactions_count_as_neither(audited: Audited, topic: str) -> None:
    with producer(audited, transactional_id=topic) as sending:
        sending.init_transactions()
        for count, commit in ((5, True), (8, False), (2, True)):
            sending.begin_transaction()
            for _ in range(count):
                sending.produce(topic, b"x", partition=0)
            sending.flush()
            if commit:
                sending.commit_transaction()
            else:
                sending.abort_transaction()
    with consumer(audited, topic, "billing") as reading:
        read(reading, 7)
    report = audited.report_when(topic, lambda report: stored(report) == 7)
    assert produced(report) == stored(report) == 7
    assert between(report) == (0, 0, 0)
    assert of_consumer(report, "billing") == (7, 0, 0, 0)


def test_a_batch_over_two_windows_is_split_by_those_who_saw_its_records(
    audited: Audited, topic: str
) -> None:
    now = time.time_ns() // 1_000_000
    boundary = now - now % 60_000
    with producer(audited, linger_ms=500) as sending:
        for number in range(10):
            sending.produce(topic, b"x", partition=0, timestamp=boundary - 3 + number)
        sending.flush()
    report = audited.report_when(topic, lambda report: stored(report) == 10)
    assert [(row.window, row.produced, row.stored) for row in report.rows] == [
        (boundary - 60_000, 3, 3),
        (boundary, 7, 7),
    ]
    assert between(report) == (0, 0, 0)


def test_older_records_behind_newer_ones_are_no_false_alarm(audited: Audited, topic: str) -> None:
    now = time.time_ns() // 1_000_000
    ages = [0, 5, 0, 3, 0, 61, 0, 2]
    with producer(audited, linger_ms=500) as sending:
        for minutes in ages:
            sending.produce(topic, b"x", partition=0, timestamp=now - minutes * 60_000)
        sending.flush()
    with consumer(audited, topic, "billing") as reading:
        read(reading, len(ages))
    report = audited.report_when(topic, lambda report: stored(report) == len(ages))
    assert between(report) == (0, 0, 0)
    assert of_consumer(report, "billing") == (len(ages), 0, 0, 0)


def test_a_producer_calls_what_the_application_gave_it(audited: Audited, topic: str) -> None:
    heard: list[tuple[KafkaError | None, bytes | None]] = []
    audited.create(topic)

    def hear(error: KafkaError | None, message: Message) -> None:
        heard.append((error, message.value()))

    with producer(audited) as sending:
        sending.produce(topic, b"1", on_delivery=hear)
        sending.produce(topic, b"2", b"key", 0, hear, headers=[("a", b"b")])
        sending.produce(topic, b"3")
        messages: list[dict[str, Any]] = [{"value": b"4"}, {"value": b"5", "callback": hear}]
        assert sending.produce_batch(topic, messages) == 2
        assert sending.flush(20) == 0
        assert len(sending) == 0
    assert sorted(heard, key=str) == [(None, b"1"), (None, b"2"), (None, b"5")]
    assert produced(audited.report_when(topic, lambda report: produced(report) == 5)) == 5


def test_a_default_callback_hears_of_failures_only_if_it_asked_for_that(
    audited: Audited, topic: str
) -> None:
    heard: list[KafkaError | None] = []
    audited.create(topic, max_message_bytes="1000")
    settings = {
        "bootstrap.servers": audited.bootstrap,
        "on_delivery": lambda error, _: heard.append(error),
        "delivery.report.only.error": True,
    }
    with AuditedProducer(settings, audit_interval_ms=INTERVAL_MS) as sending:
        sending.produce(topic, b"x")
        sending.flush()
        sending.produce(topic, b"x" * 2000)
        sending.flush()
    assert len(heard) == 1
    assert heard[0] is not None
    report = audited.report_when(topic, lambda report: stored(report) == 1)
    assert produced(report) == 1


def test_a_wrong_setting_is_refused_as_ever(audited: Audited) -> None:
    with pytest.raises(Exception, match=r"no\.such\.setting"):
        producer(audited, no_such_setting=1)


def test_a_client_that_is_forgotten_still_reports(audited: Audited, topic: str) -> None:
    sending = producer(audited)
    sending.produce(topic, b"x")
    sending.flush()
    del sending
    report = audited.report_when(topic, lambda report: produced(report) == 1)
    assert produced(report) == 1
