"""aiokafka's producer and consumer, with the audit: they count what they deliver or hand out.

    producer = AuditedProducer(bootstrap_servers="127.0.0.1:9092", audit_name="shop")
    consumer = AuditedConsumer("orders", bootstrap_servers="127.0.0.1:9092", group_id="billing")

Rules kept here:
1. They are what they wrap: every method is there, with the same arguments.
2. A producer counts a record when its delivery is confirmed; in a transaction, when that commits.
   With acks=0 nothing is confirmed, and nothing counted. The timestamps are given to aiokafka,
   which tells every record of a batch the first one's.
3. A consumer counts a record when it hands it out.
4. Events are written by a plain producer with the same settings of connection and security; the
   last ones at stop().
"""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from aiokafka import (  # type: ignore[import-untyped]  # ships no type marker
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # as above
from aiokafka.structs import ConsumerRecord, RecordMetadata  # type: ignore[import-untyped]  # too

from ottla.audit.events import AUDIT_TOPIC, INTERVAL_MS, WINDOW_MS, Event, Tier
from ottla.audit.reporter import MOST_WAITING, log
from ottla.audit.tally import Tally

LOG_APPEND_TIME = 1
SHARED_SETTINGS = ("bootstrap_servers", "client_id", "request_timeout_ms", "security_protocol")
SHARED_PREFIXES = ("sasl_", "ssl_")


class AuditedProducer(AIOKafkaProducer):  # type: ignore[misc]  # aiokafka has no types
    """A producer that counts what it has delivered."""

    def __init__(
        self,
        *,
        audit_name: str | None = None,
        audit_window_ms: int = WINDOW_MS,
        audit_interval_ms: int = INTERVAL_MS,
        **settings: Any,
    ) -> None:
        """`audit_name` is what `ottla audit` calls it, by default its client_id."""
        super().__init__(**settings)
        name = audit_name or str(settings.get("client_id") or "aiokafka")
        tally = _tally(Tier.PRODUCER, name, audit_window_ms, audit_interval_ms)
        self._audit = _Reporter(tally, settings, audit_interval_ms)

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> asyncio.Future[RecordMetadata]:
        """As AIOKafkaProducer.send."""
        stamp = _now() if timestamp_ms is None else timestamp_ms
        sent: asyncio.Future[RecordMetadata] = await super().send(
            topic, value, key, partition, stamp, headers
        )
        sent.add_done_callback(partial(self._audit_delivered, topic, [stamp]))
        return sent

    def create_batch(self) -> Any:
        """As AIOKafkaProducer.create_batch."""
        builder = super().create_batch()
        append = builder.append
        stamps: list[int] = []

        def remember(**record: Any) -> Any:
            added = append(**record)
            if added is not None:
                stamps.append(added.timestamp)
            return added

        builder.append = remember
        builder.audit_stamps = stamps
        return builder

    async def send_batch(
        self, batch: Any, topic: str, *, partition: int
    ) -> asyncio.Future[RecordMetadata]:
        """As AIOKafkaProducer.send_batch."""
        stamps = list(batch.audit_stamps)  # an open batch also takes what send() brings
        sent: asyncio.Future[RecordMetadata] = await super().send_batch(
            batch, topic, partition=partition
        )
        sent.add_done_callback(partial(self._audit_delivered, topic, stamps))
        return sent

    def _audit_delivered(
        self,
        topic: str,
        stamps: list[int],
        sent: asyncio.Future[RecordMetadata],
    ) -> None:
        if sent.cancelled() or sent.exception() is not None:
            return
        metadata = sent.result()
        if metadata is None:  # acks=0: nobody has confirmed anything
            return
        for place, stamp in enumerate(stamps):
            if metadata.timestamp_type == LOG_APPEND_TIME:
                stamp = metadata.timestamp
            self._audit.count(topic, metadata.partition, stamp, metadata.offset + place)

    async def begin_transaction(self) -> None:
        """As AIOKafkaProducer.begin_transaction."""
        await super().begin_transaction()
        self._audit.tally.begin_transaction()

    async def commit_transaction(self) -> None:
        """As AIOKafkaProducer.commit_transaction; what it delivered counts from now on."""
        await super().commit_transaction()
        self._audit.end_transaction(committed=True)

    async def abort_transaction(self) -> None:
        """As AIOKafkaProducer.abort_transaction."""
        await super().abort_transaction()
        self._audit.end_transaction(committed=False)

    async def stop(self) -> None:
        """As AIOKafkaProducer.stop."""
        await super().stop()
        await self._audit.close()


class AuditedConsumer(AIOKafkaConsumer):  # type: ignore[misc]  # aiokafka has no types
    """A consumer that counts what it has handed out."""

    def __init__(
        self,
        *topics: str,
        audit_name: str | None = None,
        audit_window_ms: int = WINDOW_MS,
        audit_interval_ms: int = INTERVAL_MS,
        **settings: Any,
    ) -> None:
        """`audit_name` is what `ottla audit` calls it, by default its group_id."""
        super().__init__(*topics, **settings)
        name = audit_name or str(settings.get("group_id") or "aiokafka")
        tally = _tally(Tier.CONSUMER, name, audit_window_ms, audit_interval_ms)
        self._audit = _Reporter(tally, settings, audit_interval_ms)

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """As AIOKafkaConsumer.getone."""
        record = await super().getone(*partitions)
        self._audit_handed_out(record)
        return record

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """As AIOKafkaConsumer.getmany."""
        found: dict[TopicPartition, list[ConsumerRecord]] = await super().getmany(
            *partitions, timeout_ms=timeout_ms, max_records=max_records
        )
        for records in found.values():
            for record in records:
                self._audit_handed_out(record)
        return found

    def _audit_handed_out(self, record: ConsumerRecord) -> None:
        self._audit.count(record.topic, record.partition, record.timestamp, record.offset)

    async def stop(self) -> None:
        """As AIOKafkaConsumer.stop."""
        await super().stop()
        await self._audit.close()


def _tally(tier: Tier, name: str, window_ms: int, interval_ms: int) -> Tally:
    return Tally(tier, name, uuid4().hex, window_ms=window_ms, interval_ms=interval_ms)


def _now() -> int:
    return time.time_ns() // 1_000_000


class _Reporter:
    """Reports what is counted, as `reporter` does, from a task instead of a thread."""

    def __init__(self, tally: Tally, settings: dict[str, Any], interval_ms: int) -> None:
        self.tally = tally
        self._interval = interval_ms / 1000
        self._settings = {
            name: value
            for name, value in settings.items()
            if name in SHARED_SETTINGS or name.startswith(SHARED_PREFIXES)
        }
        self._producer: AIOKafkaProducer | None = None
        self._waiting: list[Event] = []
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def count(self, topic: str, partition: int, timestamp_ms: int, offset: int) -> None:
        self.tally.add(topic, partition, timestamp_ms, offset)
        if self._task is None:
            self._wake()

    def end_transaction(self, *, committed: bool) -> None:
        self.tally.end_transaction(committed=committed)
        if self._task is None:
            self._wake()

    def _wake(self) -> None:
        if self.tally.has_news and not self._closed:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            await self._report()
            await asyncio.sleep(self._interval)
            if not self.tally.has_news and not self._waiting:
                break
        self._task = None

    async def close(self) -> None:
        if self._closed:
            return
        await asyncio.sleep(0)  # deliveries that are known are counted in the loop's next turn
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._report(last=True)
        if self._producer is not None:
            await self._producer.stop()

    async def _report(self, *, last: bool = False) -> None:
        self._waiting += self.tally.report(_now(), last=last)
        del self._waiting[:-MOST_WAITING]
        events = list(self._waiting)
        if not events:
            return
        try:
            await self._write(events)
        except (KafkaError, OSError) as problem:
            log.warning("failed to write audit events: %s", problem)
            return
        del self._waiting[: len(events)]

    async def _write(self, events: Sequence[Event]) -> None:
        if self._producer is None:
            producer = AIOKafkaProducer(**self._settings, enable_idempotence=True)
            try:
                await producer.start()
            except BaseException:
                await producer.stop()
                raise
            self._producer = producer
        sent = [
            await self._producer.send(AUDIT_TOPIC, event.encode(), event.key()) for event in events
        ]
        await asyncio.gather(*sent)
