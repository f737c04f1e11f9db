"""The broker's tier of the audit: counts what is stored, from the logs' batch headers.

Rules kept here:
1. Nothing happens on the way of a produce. Every `ottla.audit.interval.ms` what was stored since is
   counted in the logs themselves, by a child process (`ottla.audit.scan`), up to the last stable
   offset: so transactions are decided, doubles of idempotent producers are not there, and what is
   counted is what the log really has.
2. An event says from which offset of a partition to which it has counted. It is on disk before
   `audit-offset-checkpoint` says so: after a crash in between the same offsets are counted again,
   in an event with the same sequence, which counts once.
3. Offsets belong to a topic's id, not to its name.
4. Offsets that were removed before they were counted are left out, and the check sees the gap. A
   log that ends before what was counted has lost records: an event says which.
5. What fails is said once and tried again at the next time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import structlog

from ottla.audit.events import AUDIT_TOPIC, Count, Event, Span, Tier
from ottla.audit.scan import LogOrder, Order, Scanned
from ottla.broker.checkpoints import in_turns
from ottla.broker.child import Child
from ottla.broker.coordinators import MOST_REPLICAS, java_hash
from ottla.broker.partition import Partition
from ottla.broker.patterns import full_matcher
from ottla.broker.topics import create_topic
from ottla.cluster.topics import NewTopic
from ottla.config.topic_names import INTERNAL_TOPICS
from ottla.log.folder import uuid_to_text
from ottla.records import Record, encode_batch
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = structlog.get_logger()

AUDIT_OFFSETS: Final = "audit-offset-checkpoint"
LOGS_IN_AN_ORDER: Final = 200
LONGEST_LAST_ROUND: Final = 5.0
LONGEST_ANSWER: Final = 64 << 20
BATCH_BYTES: Final = 500_000
RECORD_OVERHEAD: Final = 500
"""Enough for a key and what a record has around it."""


class ScanFailed(Exception):  # noqa: N818 (it names what happened)
    """The child could not be asked."""


class _Job(NamedTuple):
    partition: Partition
    order: LogOrder


class Audit:
    """The audit of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._task: asyncio.Task[None] | None = None
        self._child: Child | None = None
        self._counted: dict[tuple[str, int], int] = {}
        """By topic id and partition, the offset up to which events tell."""
        self._whole: dict[Partition, int] = {}
        """The ends of the logs that were counted as a whole."""
        self._problems: set[str] = set()
        self._problems_before: set[str] = set()

    def start(self) -> None:
        """Begin, if `ottla.audit.enable` says so; raises ValueError for a wrong pattern."""
        config = self._node.config
        if config.ottla_audit_enable:
            self._is_chosen = full_matcher(config.ottla_audit_topics)
            self._counted = self._node.folder.read_checkpoint(AUDIT_OFFSETS)
            self._task = asyncio.get_running_loop().create_task(self._repeat())

    async def stop(self) -> None:
        """Count what is there, once more, and stop."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(LONGEST_LAST_ROUND):
                await self._try_to_count()
        except TimeoutError:
            log.warning("the audit's last counts wait for the next start")
        await self._end_child()

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(self._node.config.ottla_audit_interval_ms / 1000)
            while await self._try_to_count():
                pass

    async def _try_to_count(self) -> bool:
        self._problems_before, self._problems = self._problems, set()
        try:
            return await self.count()
        except (KafkaError, OSError, ScanFailed) as problem:
            self._tell(str(problem))
        except Exception:
            log.exception("the audit cannot count")
        return False

    def _tell(self, problem: str) -> None:
        self._problems.add(problem)
        if problem not in self._problems_before:
            log.error("the audit cannot count", reason=problem)

    # One round ----------------------------------------------------------------------------

    async def count(self) -> bool:
        """Count and report what was stored since the last time; True where more is left."""
        jobs = await self._find_jobs()
        more = False
        while jobs:
            some, jobs = jobs[:LOGS_IN_AN_ORDER], jobs[LOGS_IN_AN_ORDER:]
            more |= await self._carry_out(some)
        return more

    async def _find_jobs(self) -> list[_Job]:
        """What has grown since the last time."""
        jobs: list[_Job] = []
        losses: list[Event] = []
        shorter: dict[tuple[str, int], int] = {}
        whole: dict[Partition, int] = {}
        async for partition in in_turns(self._node.partitions):
            end = partition.log.end_offset
            if self._whole.get(partition) == end:  # all that most partitions cost
                whole[partition] = end
                continue
            if not self._is_audited(partition):
                continue
            done = self._counted.get(_key(partition), 0)
            if end < done:
                losses.append(self._loss(partition, end, done))
                shorter[_key(partition)] = done = end
            if end == done:
                whole[partition] = end
            stable = partition.readable_to(read_committed=True)
            start = max(done, partition.log.start_offset)
            if stable > start:
                aborted = partition.log.aborted_transactions(start, stable)
                order = LogOrder(str(partition.log.directory), start, stable, aborted)
                jobs.append(_Job(partition, order))
        self._whole = whole
        if losses:
            await self._told(losses, shorter)
        return jobs

    async def _carry_out(self, jobs: list[_Job]) -> bool:
        events: list[Event] = []
        more = False
        counted: dict[tuple[str, int], int] = {}
        answers = await self._scan([job.order for job in jobs])
        for job, scanned in zip(jobs, answers, strict=True):
            if scanned.error is not None:
                if not job.partition.deleted:
                    self._tell(f"{job.partition}: {scanned.error}")
            elif scanned.reached > job.order.start:
                events.append(self._event(job, scanned))
                counted[_key(job.partition)] = scanned.reached
                more |= scanned.reached < job.order.end
        if events:
            await self._told(events, counted)
        return more

    async def _told(self, events: list[Event], counted: dict[tuple[str, int], int]) -> None:
        """Report, and only then know that it was."""
        await self._report(events)
        self._counted |= counted
        await self._write_checkpoint()

    def _is_audited(self, partition: Partition) -> bool:
        topic = partition.topic
        return not (
            topic == AUDIT_TOPIC
            or topic in INTERNAL_TOPICS
            or partition.deleted
            or partition.log.offline
            or not self._is_chosen(topic)
        )

    def _event(self, job: _Job, scanned: Scanned) -> Event:
        index = job.partition.index
        start, reached = job.order.start, scanned.reached
        span = (start, reached) if scanned.begin < 0 else (scanned.begin, scanned.end)
        return self._about(
            job.partition,
            sequence=start,
            next=reached,
            counts=[(index, first, last, n) for first, last, n in sorted(scanned.counts)],
            spans={index: span},
        )

    def _loss(self, partition: Partition, end: int, counted: int) -> Event:
        log.error("records are gone that the audit had counted", partition=str(partition))
        lost = [(partition.index, end, counted)]
        return self._about(partition, sequence=end, next=end, lost=lost)

    def _about(
        self,
        partition: Partition,
        *,
        sequence: int,
        next: int,  # noqa: A002 (the field's name)
        counts: list[Count] = [],  # noqa: B006 (nobody changes it)
        spans: dict[int, Span] = {},  # noqa: B006 (as above)
        lost: list[tuple[int, int, int]] = [],  # noqa: B006 (as above)
    ) -> Event:
        topic_id, index = _key(partition)
        return Event(
            tier=Tier.BROKER,
            name=str(self._node.id),
            instance=f"{topic_id}/{index}",
            topic=partition.topic,
            sequence=sequence,
            next=next,
            time=self._node.now_ms(),
            window_ms=self._node.config.ottla_audit_window_ms,
            counts=counts,
            spans=spans,
            lost=lost,
        )

    # The child ----------------------------------------------------------------------------

    async def _scan(self, logs: list[LogOrder]) -> list[Scanned]:
        order = msgspec.json.encode(Order(self._node.config.ottla_audit_window_ms, logs))
        try:
            if self._child is None or not self._child.is_running:
                await self._end_child()
                self._child = await Child.start("ottla.audit.scan", longest_line=LONGEST_ANSWER)
            child = self._child
            child.stdin.write(order + b"\n")
            await child.stdin.drain()
            answer = await child.stdout.readline()
            return msgspec.json.decode(answer, type=list[Scanned])
        except (OSError, ValueError, msgspec.DecodeError) as problem:
            await self._end_child()
            raise ScanFailed(f"the scanning process failed: {problem}") from None
        except asyncio.CancelledError:
            await self._end_child()  # its answer would be taken for the next order's
            raise

    async def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.end()

    # Reporting ----------------------------------------------------------------------------

    async def _report(self, events: list[Event]) -> None:
        """Write events to the audit topic, and wait until they are on disk; raises KafkaError."""
        await self._ensure_topic()
        here = self._node.partitions.of_topic(AUDIT_TOPIC)
        partitions = [partition for partition in here if partition.leads]
        if not partitions:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"no partition of {AUDIT_TOPIC}")
        waiting: dict[Partition, list[Event]] = defaultdict(list)
        for event in events:
            waiting[partitions[java_hash(event.instance) % len(partitions)]].append(event)
        now = self._node.now_ms()
        for partition, its_events in waiting.items():
            for records in _batches(its_events, now):
                partition.append_own(memoryview(bytearray(encode_batch(records))), now)
        for partition in waiting:
            await partition.flush()

    async def _ensure_topic(self) -> None:
        node = self._node
        if AUDIT_TOPIC in node.image.topics:
            return
        replicas = min(MOST_REPLICAS, len(node.image.brokers))
        try:
            await create_topic(node, NewTopic(AUDIT_TOPIC, 1, replicas))
        except KafkaError as problem:
            if problem.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    async def _write_checkpoint(self) -> None:
        ids = {uuid_to_text(topic.id) for topic in self._node.image.topics.values()}
        self._counted = {key: at for key, at in self._counted.items() if key[0] in ids}
        write = self._node.folder.write_checkpoint
        await asyncio.get_running_loop().run_in_executor(
            None, write, AUDIT_OFFSETS, dict(self._counted)
        )


def _batches(events: list[Event], now: int) -> Iterator[list[Record]]:
    """The records of events, as many at a time as a batch may hold."""
    records: list[Record] = []
    size = 0
    for event in events:
        value = event.encode()
        if records and size + len(value) > BATCH_BYTES:
            yield records
            records, size = [], 0
        records.append(Record(len(records), now, event.key(), value))
        size += len(value) + RECORD_OVERHEAD
    yield records


def _key(partition: Partition) -> tuple[str, int]:
    return uuid_to_text(partition.topic_id), partition.index
