"""kill -9 around a share group: of its consumers, of its coordinators, of its partitions' leaders.

A producer writes all the while, three members of the group accept what they get. In each round one
process is killed: a consumer (another takes its place), the leader of a partition, the broker that
keeps the state of a share partition, or the group's coordinator.

What must hold at the end:
1. Every record that the cluster has acknowledged to the producer was delivered, and is done with:
   the group's lag is 0.
2. No record is delivered again after its acknowledgement was answered. (A member may report a
   record late that it got before: so much is allowed for.)
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import cycle
from uuid import UUID

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat.java_process import EventProcess
from ottla.broker.coordinators.share_coordinator import coordinator_key
from ottla.coordinator.share_state.records import SharePartitionKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from testkit.raw import ClosedError, Connection
from testkit.share_groups import id_of, read_from_beginning
from testkit.waiting import until
from testkit.workers import WorkersProcess

TOPIC = GROUP = "shared"
PARTITIONS = 3
MEMBERS = 3
SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "4000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "500",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.snapshot.update.records.per.snapshot": "50",
    "offsets.topic.num.partitions": "3",
}
PAUSE_SECONDS = 0.002
"""Between two records of the producer."""
LEAST_CONSUMED, MOST_CONSUMED = 300, 900
"""Records between two kills."""
ROUND_SECONDS = 90.0
LATE_MS = 3_000
KINDS = ("consumer", "leader", "share coordinator", "group coordinator")

Place = tuple[int, int]
"""Partition and offset."""
Start = Callable[[str, str, str], EventProcess]
"""Starts a member: bootstrap servers, group, topic."""


class LostError(Exception):
    """A promise was broken: the message says which."""


class _Load(threading.Thread):
    """The producer."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: set[Place] = set()
        self._over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        number = 0
        while not self._over.wait(PAUSE_SECONDS):
            self._producer.produce(TOPIC, str(number).encode(), on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1

    def _delivered(self, problem: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if problem is None and partition is not None and offset is not None:
            self.acknowledged.add((partition, offset))

    def end(self) -> None:
        """Write no more; all that was written is acknowledged."""
        self._over.set()
        self.join()
        if self._producer.flush(ROUND_SECONDS):
            raise LostError("the producer could not write all of its records")


class _Group:
    """The members, dead ones too, and what they have said."""

    def __init__(self, cluster: WorkersProcess, start: Start, stack: ExitStack) -> None:
        self._cluster = cluster
        self._start = start
        self._stack = stack
        self.all: list[EventProcess] = []

    def start(self) -> None:
        """One more member."""
        member = self._start(self._cluster.bootstrap, GROUP, TOPIC)
        self._stack.enter_context(member)
        self.all.append(member)

    def kill_one(self, rng: random.Random) -> None:
        """kill -9 of one, and another in its place."""
        rng.choice([each for each in self.all if each.is_running]).kill()
        self.start()

    def said(self, name: str) -> Iterator[tuple[Place, int]]:
        """Each record that was named in events of a name, and when."""
        for member in self.all:
            for event in member.named(name):
                if event.get("success", True):
                    for part in event["partitions"]:
                        for offset in part["offsets"]:
                            yield (part["partition"], offset), event["timestamp"]

    def consumed(self) -> set[Place]:
        """All records that somebody has got."""
        if dead := [each for each in self.all if each.has_failed]:
            raise LostError(f"a member has ended by itself: {dead[0]}")
        return {place for place, _ in self.said("records_consumed")}


def run(cluster: WorkersProcess, start: Start, rounds: int, seed: int) -> str:
    """Kill round by round; says how much was delivered. Raises LostError."""
    rng = random.Random(seed)
    read_from_beginning(cluster.bootstrap, GROUP)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result()
    topic_id = id_of(cluster.bootstrap, TOPIC)
    with ExitStack() as stack:
        group = _Group(cluster, start, stack)
        for _ in range(MEMBERS):
            group.start()
        load = _Load(cluster.bootstrap)
        load.start()
        kinds = cycle(KINDS)
        for _ in range(rounds):
            _wait_for_progress(group, rng.randrange(LEAST_CONSUMED, MOST_CONSUMED))
            _kill(cluster, group, next(kinds), topic_id, rng)
        _wait_for_progress(group, LEAST_CONSUMED)
        load.end()
        until(
            lambda: load.acknowledged <= group.consumed(),
            "every record is delivered",
            ROUND_SECONDS,
        )
        until(lambda: _lag(cluster) == 0, "every record is done with", ROUND_SECONDS)
        _check(group)
        count = len(load.acknowledged)
        times = sum(1 for _ in group.said("records_consumed"))
    return f"{count:,} records, {rounds} kills, {times - count:,} of them delivered more than once"


def _wait_for_progress(group: _Group, count: int) -> None:
    before = len(group.consumed())
    until(lambda: len(group.consumed()) >= before + count, f"{count} more records", ROUND_SECONDS)


def _kill(
    cluster: WorkersProcess, group: _Group, kind: str, topic_id: UUID, rng: random.Random
) -> None:
    if kind == "consumer":
        group.kill_one(rng)
        return
    if kind == "leader":
        victim = cluster.leader(TOPIC, rng.randrange(PARTITIONS))
    else:
        victim = _coordinator(cluster, kind, topic_id, rng.randrange(PARTITIONS))
    cluster.kill_broker(victim)
    cluster.wait_until_whole()


def _coordinator(cluster: WorkersProcess, kind: str, topic_id: UUID, partition: int) -> int:
    if kind == "group coordinator":
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    else:
        key = coordinator_key(SharePartitionKey(GROUP, topic_id, partition))
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    with Connection(cluster.bootstraps[0]) as connection:
        (found,) = connection.ask(request, FindCoordinatorResponse, 6).coordinators
    return found.node_id


def _lag(cluster: WorkersProcess) -> int:
    """Of all share partitions; -1 where it is not known."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)]
    )
    for bootstrap in cluster.bootstraps:
        try:
            with Connection(bootstrap) as connection:
                answer = connection.ask(request, DescribeShareGroupOffsetsResponse, 1)
        except (OSError, ClosedError):
            continue
        (group,) = answer.groups
        if group.error_code == ErrorCode.NONE and group.topics:
            lags = [each.lag for topic in group.topics for each in topic.partitions]
            return -1 if min(lags) < 0 else sum(lags)
    return -1


def _check(group: _Group) -> None:
    answered: dict[Place, int] = {}
    for place, when in group.said("offsets_acknowledged"):
        answered[place] = min(when, answered.get(place, when))
    again = sorted(
        (place, when - answered[place])
        for place, when in group.said("records_consumed")
        if when > answered.get(place, when) + LATE_MS
    )
    if again:
        (partition, offset), later = again[0]
        raise LostError(
            f"{len(again)} records were delivered again after their acknowledgement was answered: "
            f"the first is offset {offset} of partition {partition}, {later} ms later"
        )
