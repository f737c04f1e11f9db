"""What takes the samples: a thread that asks for the ends of logs and for committed offsets.

Rules kept here:
1. It asks for at most `MOST_PARTITIONS` partitions and `MOST_GROUPS` groups, and rests at least ten
   times as long as it worked: a console is no load on its cluster.
2. A cluster that is gone, or refuses, ends nothing: the next round tries again.
3. Rates come from two rounds of this process; after a restart the first round has none.
"""

from collections import deque
from collections.abc import Callable, Mapping
from threading import Event, Thread
from time import monotonic, time
from typing import Final

import structlog

from ottla.client import Admin, Client, KafkaError, TopicPartition
from ottla.client.admin import LATEST, TopicDescription
from ottla.client.group_admin import CommittedOffset, GroupAdmin
from ottla.client.pipeline_reports import (
    PIPELINES_TOPIC,
    REPORT_SECONDS,
    PipelineReport,
    State,
    read_reports,
)
from ottla.console.cluster import Cluster
from ottla.console.history import History

log = structlog.get_logger()

MOST_PARTITIONS: Final = 10_000
MOST_GROUPS: Final = 200
PIPELINE_RECORDS: Final = 500
MOST_PIPELINES: Final = 50
REMEMBERED: Final = 240
"""Rounds whose ends are remembered to tell a lag in seconds."""

Ends = dict[TopicPartition, int]


class Rounds:
    """What was seen in the last rounds, and what follows from it (pure)."""

    def __init__(self) -> None:
        self._rounds: deque[tuple[float, Ends]] = deque(maxlen=REMEMBERED)

    def rates(self, now: float, ends: Ends) -> dict[str, float]:
        """Messages a second by topic since the last round; takes this one in."""
        rates: dict[str, float] = {}
        if self._rounds:
            before, old = self._rounds[-1]
            for where, end in ends.items():
                grown = end - old.get(where, end)
                if grown > 0 and now > before:
                    rates[where.topic] = rates.get(where.topic, 0.0) + grown / (now - before)
        self._rounds.append((now, ends))
        return rates

    def lag(self, now: float, committed: Mapping[TopicPartition, int]) -> tuple[int, float]:
        """A group's lag in messages, and how long ago its worst partition ended where it reads."""
        if not self._rounds:
            return 0, 0.0
        ends = self._rounds[-1][1]
        messages, seconds = 0, 0.0
        for where, offset in committed.items():
            behind = ends.get(where, offset) - offset
            if behind > 0:
                messages += behind
                seconds = max(seconds, now - self._ended_at(where, offset, now))
        return messages, seconds

    def _ended_at(self, where: TopicPartition, offset: int, now: float) -> float:
        """When the partition ended at an offset: the last round in which it did not reach further;
        the oldest round where all reached further.
        """
        at = now
        for when, ends in reversed(self._rounds):
            at = when
            if ends.get(where, offset + 1) <= offset:
                break
        return at


class Sampler:
    """The thread."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        every: float,
        clock: Callable[[], float] = time,
    ) -> None:
        self._cluster = cluster
        self._history = history
        self._every = every
        self._clock = clock
        self._stopping = Event()
        self._rounds = Rounds()
        self._thread = Thread(target=self._run, name="console-sampler", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a request that is on its way is not waited for long."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def _run(self) -> None:
        failing = False
        while not self._stopping.is_set():
            begun = monotonic()
            try:
                self.sample()
                failing = False
            except KafkaError as problem:
                if not failing:
                    log.warning("cannot sample the cluster; retrying", reason=str(problem))
                failing = True
            except Exception:
                log.exception("sampling failed")
            took = monotonic() - begun
            self._stopping.wait(max(self._every - took, 10 * took if not failing else 0, 0.2))

    def sample(self) -> None:
        """One round; raises KafkaError."""
        topics = self._cluster.topics()
        partitions = [
            TopicPartition(topic.name, each.partition)
            for topic in topics
            for each in topic.partitions
            if each.leader >= 0
        ][:MOST_PARTITIONS]
        now = self._clock()
        with self._cluster.client() as client:
            found = Admin(client).list_offsets(dict.fromkeys(partitions, LATEST))
            rates = self._rounds.rates(now, {where: at.offset for where, at in found.items()})
            groups = _committed(client)
            pipelines = _pipelines(client, topics, int(now * 1000))
        values = {f"topic:{name}": rate for name, rate in rates.items()}
        internal = {topic.name for topic in topics if topic.internal}
        values["total"] = sum(rate for name, rate in rates.items() if name not in internal)
        for name, committed in groups.items():
            messages, seconds = self._rounds.lag(
                now, {where: each.offset for where, each in committed.items()}
            )
            if messages:
                values[f"group:{name}"] = float(messages)
                values[f"seconds:{name}"] = seconds
        for each in pipelines:
            values[f"rows:{each.pipeline}"] = each.rows_per_second
            values[f"behind:{each.pipeline}"] = float(each.lag or 0)
        self._history.add(int(now), {key: each for key, each in values.items() if each}, rates)


def _pipelines(client: Client, topics: list[TopicDescription], now_ms: int) -> list[PipelineReport]:
    """The reports of pipelines that run."""
    if not any(topic.name == PIPELINES_TOPIC for topic in topics):
        return []
    try:
        reports = read_reports(client, PIPELINE_RECORDS)
    except KafkaError as problem:
        if problem.retriable:
            raise
        return []
    running = [each for each in reports if each.state is State.RUNNING]
    return [each for each in running if now_ms - each.time < 2000 * REPORT_SECONDS][:MOST_PIPELINES]


def _committed(client: Client) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    admin = GroupAdmin(client)
    found = {}
    for listing in admin.list_groups()[:MOST_GROUPS]:
        try:
            found[listing.group_id] = admin.committed_offsets(listing.group_id)
        except KafkaError as problem:
            if problem.retriable:
                raise
    return found
