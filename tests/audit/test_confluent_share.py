"""An audited share consumer on a real broker: what counts is what is done with."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import AcknowledgeType, Message

from ottla.audit.confluent import AuditedProducer
from ottla.audit.confluent_share import AuditedShareConsumer
from testkit.share_groups import read_from_beginning
from testkit.waiting import until
from tests.audit.auditing import INTERVAL_MS, Audited, of_consumer, stored

RECORDS = 20
GROUP = "workers"


def produce(audited: Audited, topic: str) -> None:
    with AuditedProducer(
        {"bootstrap.servers": audited.bootstrap}, audit_interval_ms=INTERVAL_MS
    ) as producer:
        for number in range(RECORDS):
            producer.produce(topic, b"x", partition=0, key=str(number))
        assert producer.flush(20) == 0


@contextmanager
def consumer(audited: Audited, topic: str) -> Iterator[AuditedShareConsumer]:
    reading = AuditedShareConsumer(
        {
            "bootstrap.servers": audited.bootstrap,
            "group.id": f"{GROUP}.{topic}",
            "share.acknowledgement.mode": "explicit",
        },
        audit_name=GROUP,
        audit_interval_ms=INTERVAL_MS,
    )
    reading.subscribe([topic])
    try:
        yield reading
    finally:
        reading.close()


def test_a_record_counts_when_it_is_done_with_and_once(audited: Audited, topic: str) -> None:
    produce(audited, topic)
    read_from_beginning(audited.bootstrap, f"{GROUP}.{topic}")
    released: set[int] = set()
    done: set[int] = set()
    answers: list[int] = []

    def take(message: Message) -> AcknowledgeType:
        offset = message.offset()
        assert offset is not None
        if offset % 3 == 0 and offset not in released:
            released.add(offset)
            return AcknowledgeType.RELEASE
        done.add(offset)
        return AcknowledgeType.REJECT if offset % 5 == 0 else AcknowledgeType.ACCEPT

    with consumer(audited, topic) as reading:
        reading.set_acknowledgement_commit_callback(
            lambda offsets, problem: answers.append(sum(map(len, offsets.values())))
        )

        def all_are_done() -> bool:
            for message in reading.poll(0.2):
                if message.error() is None:
                    reading.acknowledge(message, take(message))
            assert set(reading.commit_sync(20).values()) <= {None}
            return len(done) == RECORDS

        until(all_are_done, "every record is done with")
        assert not reading._audit_held
    assert sum(answers) == RECORDS + len(released)
    report = audited.report_when(
        topic,
        lambda report: stored(report) == RECORDS and of_consumer(report, GROUP)[0] == RECORDS,
    )
    assert of_consumer(report, GROUP) == (RECORDS, 0, 0, 0)
