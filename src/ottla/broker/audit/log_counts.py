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
6. A partition is counted by the broker that leads it. In a cluster each round begins with what
   others have reported (`audit_topic`), so a new leader continues where the one before it ended.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

import msgspec
import structlog

from ottla.audit.events import AUDIT_TOPIC, Count, Event, Span, Tier
from ottla.audit.scan import LogOrder, ScannedFile, ScanOrder
from ottla.broker.audit.audit_topic import AuditTopic, Counted
from ottla.broker.context.broker_context import BrokerContext
from ottla.broker.logs.child import Child
from ottla.broker.metadata.stores import own_file
from ottla.broker.metadata.topics import ConfiguredWriter
from ottla.broker.patterns import full_matcher
from ottla.broker.replicas.leaders import Leaders
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replication.peers import Peers
from ottla.broker.scheduling.turns import in_turns
from ottla.broker.start_error import StartError
from ottla.config.topic_names import INTERNAL_TOPICS
from ottla.log.storage.folder import DataFolder, uuid_to_text
from ottla.wire.errors import KafkaError

log = structlog.get_logger()

AUDIT_OFFSETS: Final = "audit-offset-checkpoint"
LOGS_IN_AN_ORDER: Final = 200
LONGEST_LAST_ROUND: Final = 5.0
LONGEST_ANSWER: Final = 64 << 20


class ScanFailed(Exception):  # noqa: N818 (it names what happened)
    """The child could not be asked."""


class _Job(NamedTuple):
    partition: Partition
    leader_epoch: int
    order: LogOrder

    @property
    def is_still_ours(self) -> bool:
        """Whether the partition is led here in the same term as when the work began."""
        return self.partition.leads and self.partition.leader_epoch == self.leader_epoch


class Audit:
    """The audit of one broker."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        partitions: Partitions,
        folder: DataFolder,
        leaders: Leaders,
        peers: Peers,
        metadata: ConfiguredWriter,
    ) -> None:
        broker, config, clock, image = context
        self._broker = broker
        self._config = config
        self._clock = clock
        self._image = image
        self._partitions = partitions
        self._folder = folder
        self._task: asyncio.Task[None] | None = None
        self._child: Child | None = None
        self._topic = AuditTopic(
            broker.id,
            clock=clock,
            image=image,
            partitions=partitions,
            leaders=leaders,
            peers=peers,
            metadata=metadata,
        )
        self._counted: Counted = {}
        """By topic id and partition, the offset up to which events tell."""
        self._whole: dict[Partition, int] = {}
        """The ends of the logs that were counted as a whole."""
        self._problems: set[str] = set()
        self._problems_before: set[str] = set()

    def start(self) -> None:
        """Begin, if `ottla.audit.enable` says so; raises StartError for a wrong pattern."""
        config = self._config.current
        if config.ottla_audit_enable:
            try:
                self._is_chosen = full_matcher(config.ottla_audit_topics)
            except ValueError as problem:
                raise StartError(
                    f"ottla.audit.topics is not a valid regular expression: {problem}"
                ) from None
            self._counted = self._folder.read_checkpoint(AUDIT_OFFSETS)
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
            log.warning(
                "audit did not finish counting before shutdown; it continues at the next start"
            )
        await self._end_child()

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(self._config.current.ottla_audit_interval_ms / 1000)
            while await self._try_to_count():
                pass

    async def _try_to_count(self) -> bool:
        self._problems_before, self._problems = self._problems, set()
        try:
            return await self.count()
        except (KafkaError, OSError, ScanFailed) as problem:
            self._tell(str(problem))
        except Exception:
            log.exception("audit failed to count records; retrying")
        return False

    def _tell(self, problem: str) -> None:
        self._problems.add(problem)
        if problem not in self._problems_before:
            log.error("audit failed to count records; retrying", reason=problem)

    # One round ----------------------------------------------------------------------------

    async def count(self) -> bool:
        """Count and report what was stored since the last time; True where more is left."""
        if own_file(self._config.current) is None and await self._topic.learn(self._counted):
            await self._write_checkpoint()
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
        shorter: Counted = {}
        whole: dict[Partition, int] = {}
        async for partition in in_turns(self._partitions):
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
                jobs.append(_Job(partition, partition.leader_epoch, order))
        self._whole = whole
        if losses:
            await self._told(losses, shorter)
        return jobs

    async def _carry_out(self, jobs: list[_Job]) -> bool:
        events: list[Event] = []
        more = False
        counted: Counted = {}
        answers = await self._scan([job.order for job in jobs])
        for job, scanned in zip(jobs, answers, strict=True):
            if not job.is_still_ours:
                continue
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

    async def _told(self, events: list[Event], counted: Counted) -> None:
        """Report, and only then know that it was."""
        self._broker.check_lease()
        await self._topic.report(events)
        self._counted |= counted
        await self._write_checkpoint()

    def _is_audited(self, partition: Partition) -> bool:
        topic = partition.topic
        return not (
            topic == AUDIT_TOPIC
            or topic in INTERNAL_TOPICS
            or not partition.leads
            or partition.deleted
            or partition.log.offline
            or not self._is_chosen(topic)
        )

    def _event(self, job: _Job, scanned: ScannedFile) -> Event:
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
        log.error("records that the audit had counted are lost", partition=str(partition))
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
            name=str(self._broker.id),
            instance=f"{topic_id}/{index}",
            topic=partition.topic,
            sequence=sequence,
            next=next,
            time=self._clock.now_ms(),
            window_ms=self._config.current.ottla_audit_window_ms,
            counts=counts,
            spans=spans,
            lost=lost,
        )

    # The child ----------------------------------------------------------------------------

    async def _scan(self, logs: list[LogOrder]) -> list[ScannedFile]:
        order = msgspec.json.encode(ScanOrder(self._config.current.ottla_audit_window_ms, logs))
        try:
            if self._child is None or not self._child.is_running:
                await self._end_child()
                self._child = await Child.start("ottla.audit.scan", longest_line=LONGEST_ANSWER)
            child = self._child
            child.stdin.write(order + b"\n")
            await child.stdin.drain()
            answer = await child.stdout.readline()
            return msgspec.json.decode(answer, type=list[ScannedFile])
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

    # The checkpoint -----------------------------------------------------------------------

    async def _write_checkpoint(self) -> None:
        ids = {uuid_to_text(topic.id) for topic in self._image.topics.values()}
        self._counted = {key: at for key, at in self._counted.items() if key[0] in ids}
        write = self._folder.write_checkpoint
        await asyncio.get_running_loop().run_in_executor(
            None, write, AUDIT_OFFSETS, dict(self._counted)
        )


def _key(partition: Partition) -> tuple[str, int]:
    return uuid_to_text(partition.topic_id), partition.index
