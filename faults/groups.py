"""Members of consumer groups, and what each group was given: every record at least once.

Rules kept here:
1. A member commits only what it was given before. A record counts as delivered when it was given to
   any member of the group.
2. What was confirmed as committed stays: the member that is assigned a partition finds a position
   that is not lower. Only a commit that failed meanwhile may still arrive, late.
3. What a member may do ends with its assignment; an error of a commit is not a finding.
"""

import threading
import time
from collections import Counter, defaultdict

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from faults.writers import PATIENT

Place = tuple[str, int]

COMMIT_SECONDS = 0.5
POLL_SECONDS = 0.2
LATE_SECONDS = 60.0
MOST_AT_ONCE = 500
SESSION_MS = 10_000
LEAVE_SECONDS = 60.0


class Group:
    """What all members of one group know together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.delivered: defaultdict[Place, bytearray] = defaultdict(bytearray)
        self.count = 0
        self.findings: list[str] = []
        self.errors: Counter[str] = Counter()
        self.rebalances = 0
        self._lock = threading.Lock()
        self._confirmed: dict[Place, int] = {}
        self._failed: defaultdict[Place, list[tuple[float, int]]] = defaultdict(list)

    def deliver(self, place: Place, offset: int) -> None:
        """A member was given a record."""
        with self._lock:
            flags = self.delivered[place]
            if len(flags) <= offset:
                flags.extend(bytes(offset + 1 - len(flags)))
            flags[offset] = 1
            self.count += 1

    def confirm(self, position: TopicPartition) -> None:
        """A commit was confirmed."""
        with self._lock:
            self._confirmed[position.topic, position.partition] = position.offset

    def fail(self, position: TopicPartition) -> None:
        """A commit was not confirmed; it may have happened, or happen yet."""
        with self._lock:
            kept = self._failed[position.topic, position.partition]
            kept.append((time.monotonic(), position.offset))

    def lowest(self, place: Place) -> int:
        """The position below which the group cannot be."""
        with self._lock:
            since = time.monotonic() - LATE_SECONDS
            late = [offset for moment, offset in self._failed[place] if moment > since]
            return min([self._confirmed.get(place, 0), *late])

    def missing(self, place: Place, offsets: list[int]) -> list[int]:
        """Those of a partition's records that nobody was given."""
        flags = self.delivered[place]
        return [each for each in offsets if each >= len(flags) or not flags[each]]


class Member:
    """One consumer of a group."""

    def __init__(
        self, bootstrap: str, group: Group, protocol: str, topics: list[str], name: str
    ) -> None:
        self._group = group
        self._topics = topics
        settings: dict[str, str | int | float | bool] = {
            **PATIENT,
            "bootstrap.servers": bootstrap,
            "group.id": group.name,
            "client.id": name,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        if protocol == "classic":
            settings["session.timeout.ms"] = SESSION_MS
            settings["heartbeat.interval.ms"] = SESSION_MS // 5
            settings["partition.assignment.strategy"] = "cooperative-sticky"
        self._consumer = Consumer(settings)
        self._positions: dict[Place, int] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.failed = ""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> None:
        """Commit, and leave.

        librdkafka may wait for ever in a commit when the member was fenced meanwhile; what it
        should have been given is checked all the same.
        """
        self._end.set()
        self._thread.join(LEAVE_SECONDS)
        if self._thread.is_alive():
            self._group.errors["leave: does not end"] += 1

    def _run(self) -> None:
        try:
            self._consumer.subscribe(
                self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
            committed_at = time.monotonic()
            while not self._end.is_set():
                self._take()
                if time.monotonic() - committed_at > COMMIT_SECONDS:
                    self._commit()
                    committed_at = time.monotonic()
            self._commit()
            self._consumer.close()
        except Exception as problem:  # noqa: BLE001 the run reports it
            self.failed = f"{self._group.name}: {problem!r}"

    def _take(self) -> None:
        for message in self._consumer.consume(MOST_AT_ONCE, POLL_SECONDS):
            error = message.error()
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            if error is not None:
                self._count("consume", error)
            elif topic is not None and partition is not None and offset is not None:
                self._group.deliver((topic, partition), offset)
                self._positions[topic, partition] = offset + 1

    def _commit(self) -> None:
        if not self._positions:
            return
        positions = [TopicPartition(*place, offset) for place, offset in self._positions.items()]
        self._positions.clear()
        try:
            told = self._consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException as problem:
            self._count("commit", problem.args[0])
            for position in positions:
                self._group.fail(position)
            return
        for position in told or []:
            if position.error is None:
                self._group.confirm(position)
            else:
                self._count("commit", position.error)
                self._group.fail(position)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        group = self._group
        group.rebalances += 1
        lowest = {(each.topic, each.partition): 0 for each in partitions}
        lowest = {place: group.lowest(place) for place in lowest}
        try:
            found = consumer.committed(partitions, timeout=10)
        except KafkaException as problem:
            self._count("committed", problem.args[0])
            return
        for each in found:
            least = lowest[each.topic, each.partition]
            if each.error is None and max(each.offset, 0) < least:
                group.findings.append(
                    f"group {group.name}: {each.topic}-{each.partition} stands at {each.offset}, "
                    f"though {least} was confirmed"
                )

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._positions.clear()

    def _count(self, what: str, error: KafkaError) -> None:
        self._group.errors[f"{what}: {error.name()}"] += 1
