"""A topic that is deleted and created again with the same name, and what it may hold.

Rules kept here:
1. Each life has its own number, which is in every value. What is read is of this life alone.
2. All that was acknowledged in this life is there, once and in order; where the topic is compacted,
   the last value of each key, and no value of a key whose last record is a delete marker.
3. Replicas are on two of three brokers, so a topic can be created while a broker is down. Later
   they are moved, so that a broker gets a name back that it knew with other contents.
4. A transaction may be open while the topic is deleted. Its transactional id must be usable again.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from confluent_kafka import KafkaError, KafkaException, Producer

from faults.verdict import Found, Reader, ReadError
from faults.world import BROKERS, World
from faults.writers import PATIENT
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from testkit.raw import ClosedError, Connection
from testkit.waiting import until

NAME = "recreated"
TRANSACTIONAL_ID = "recreated-transactor"
MOST_PARTITIONS = 4
REPLICAS = 2
KEYS = 20
RECORDS = 400
ROLL_MS = 500
"""How old a segment gets: only closed ones are compacted."""
DELETES = 0.2
ASK_SECONDS = 5.0
UNREACHABLE = (OSError, ClosedError, LookupError, AssertionError)
GONE = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
THERE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


@dataclass
class Life:
    """One topic that had the name."""

    number: int
    partitions: int
    compacted: bool
    written: dict[int, list[tuple[str, str | None]]] = field(default_factory=dict)
    """By partition: keys and values, in order; no value for a delete marker."""


class Recreated:
    """The topic, and who writes to it."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._rng = random.Random(f"recreated {seed}")
        self._life: Life | None = None
        self._topic_id: UUID | None = None
        self.lives = 0
        self.findings: list[str] = []

    def recreate(self, end: float, note: Callable[[str], None]) -> None:
        """Delete what is there, create it again, and write to it; raises TimeoutError."""
        rng = self._rng
        before = self._life
        producer = None
        if before is not None:
            self.findings += self._problems_once_readable(end)
            if rng.random() < 0.5:
                producer = self._open_transaction(before)
            self._until(lambda: self._delete() in GONE, "the topic is deleted", end)
            self._life = None
        self.lives += 1
        life = Life(self.lives, rng.randrange(1, MOST_PARTITIONS + 1), rng.random() < 0.5)
        self._until(lambda: self._create(life) in THERE, "the topic is created", end)
        note(
            f"  {NAME}: created again with {life.partitions} partitions"
            f"{', compacted' if life.compacted else ''}"
            f"{', with an open transaction' if producer else ''}"
        )
        self._until(lambda: self._is_known(life), "all brokers know the new topic", end)
        self._write(life, end)
        self._life = life
        self._until(lambda: self._move(life), "replicas are moved", end)
        if producer is not None:
            self._use_transactional_id(producer, end)

    # Admin --------------------------------------------------------------------------------

    def _until(self, claim: Callable[[], object], what: str, end: float) -> None:
        def attempt() -> object:
            try:
                return claim()
            except UNREACHABLE:
                return None

        until(attempt, f"{NAME}: {what}", max(0.0, end - time.monotonic()), 0.1)

    def _connection(self) -> Connection:
        running = [each for each in self._world.brokers.brokers if each.is_running]
        return Connection(self._rng.choice(running).bootstrap, ASK_SECONDS)

    def _delete(self) -> int:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=NAME)], timeout_ms=4000)
        with self._connection() as connection:
            return connection.ask(request, DeleteTopicsResponse, 6).responses[0].error_code

    def _create(self, life: Life) -> int:
        configs = {"segment.ms": str(ROLL_MS)}
        if life.compacted:
            configs |= {
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "0.01",
                "delete.retention.ms": "0",
            }
        topic = CreatableTopic(
            name=NAME,
            num_partitions=life.partitions,
            replication_factor=REPLICAS,
            configs=[
                CreatableTopicConfig(name=name, value=value) for name, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=4000)
        with self._connection() as connection:
            return connection.ask(request, CreateTopicsResponse, 7).topics[0].error_code

    def _move(self, life: Life) -> bool:
        request = AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=NAME,
                    partitions=[
                        ReassignablePartition(
                            partition_index=index,
                            replicas=self._rng.sample(range(BROKERS), REPLICAS),
                        )
                        for index in range(life.partitions)
                    ],
                )
            ]
        )
        with self._connection() as connection:
            answer = connection.ask(request, AlterPartitionReassignmentsResponse, 1)
        return not answer.error_code and not any(
            part.error_code for topic in answer.responses for part in topic.partitions
        )

    def _is_known(self, life: Life) -> bool:
        """Whether all brokers that run name the new topic.

        librdkafka keeps the higher leader epoch of the life before, if it saw that first, and
        then never finds the new leader.
        """
        names = set()
        for broker in self._world.brokers.brokers:
            if broker.is_running:
                (topic,) = self._world.brokers.metadata(NAME, of=broker).topics
                if len(topic.partitions) != life.partitions:
                    return False
                names.add(topic.topic_id)
        if len(names) != 1 or names == {self._topic_id}:
            return False
        (self._topic_id,) = names
        return True

    # Records ------------------------------------------------------------------------------

    def _write(self, life: Life, end: float) -> None:
        rng = self._rng
        failed: list[str] = []
        producer = Producer(
            {
                **PATIENT,
                "bootstrap.servers": self._world.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "message.timeout.ms": int(1000 * max(1.0, end - time.monotonic())),
            }
        )
        life.written = {index: [] for index in range(life.partitions)}
        # A pause in between lets a segment be rolled, and cleaned.
        for number in range(RECORDS):
            partition = rng.randrange(life.partitions)
            key = f"key-{rng.randrange(KEYS)}"
            value = f"{life.number}:{number}" if rng.random() >= DELETES else None
            if value is None and not life.compacted:
                value = f"{life.number}:{number}"
            self._produce(producer, key, value, partition, failed, end)
            life.written[partition].append((key, value))
            if number % (RECORDS // 4) == 0:
                producer.flush(ROLL_MS / 1000)
                time.sleep(ROLL_MS / 1000)
        left = producer.flush(max(1.0, end - time.monotonic()))
        if left or failed:
            self.findings.append(
                f"{NAME}, life {life.number}: {left + len(failed)} records were not acknowledged: "
                f"{failed[:2]}"
            )

    @staticmethod
    def _produce(
        producer: Producer,
        key: str,
        value: str | None,
        partition: int,
        failed: list[str],
        end: float,
    ) -> None:
        def done(problem: KafkaError | None, _: object) -> None:
            if problem is not None:
                failed.append(str(problem))

        while True:
            try:
                producer.produce(NAME, value, key, partition, callback=done)
            except KafkaException as problem:
                # A broker that was cut off may still name the partitions of the life before.
                is_stale = problem.args[0].name() == "_UNKNOWN_PARTITION"
                if not is_stale or time.monotonic() > end:
                    raise
                producer.poll(0.1)
            else:
                return

    def _open_transaction(self, life: Life) -> Producer | None:
        producer = Producer(
            {
                **PATIENT,
                "bootstrap.servers": self._world.bootstrap,
                "transactional.id": TRANSACTIONAL_ID,
                "transaction.timeout.ms": 60_000,
            }
        )
        try:
            producer.init_transactions(ASK_SECONDS)
            producer.begin_transaction()
            for partition in range(life.partitions):
                producer.produce(NAME, f"{life.number}:open", "open", partition)
            producer.flush(ASK_SECONDS)
        except KafkaException:
            return None  # a broker was hurt meanwhile
        return producer

    def _use_transactional_id(self, producer: Producer, end: float) -> None:
        try:
            producer.abort_transaction(ASK_SECONDS)
        except KafkaException:
            pass  # its topic is gone; the next one must get through
        problem = ""
        while time.monotonic() < end:
            successor = Producer(
                {
                    **PATIENT,
                    "bootstrap.servers": self._world.bootstrap,
                    "transactional.id": TRANSACTIONAL_ID,
                }
            )
            try:
                successor.init_transactions(2 * ASK_SECONDS)
                successor.begin_transaction()
                successor.abort_transaction(2 * ASK_SECONDS)
            except KafkaException as refused:
                problem = str(refused.args[0])
                continue
            return
        self.findings.append(f"the transactional id of {NAME} cannot be used: {problem}")

    def _problems_once_readable(self, end: float) -> list[str]:
        """What is wrong; brokers may be hurt now, so reading is tried again until `end`."""
        while True:
            try:
                return list(self.problems())
            except (KafkaException, ReadError):
                if time.monotonic() > end:
                    raise

    # The verdict --------------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """What is not as it must be in the present life."""
        life = self._life
        if life is None:
            return
        reader = Reader(self._world.bootstrap, committed=True, keys=True)
        try:
            for index, written in life.written.items():
                where = f"{NAME}-{index}, life {life.number}"
                found = reader.read(NAME, index)
                for problem in check_life(life, written, found):
                    yield f"{where}: {problem}"
        finally:
            reader.close()


def check_life(life: Life, written: list[tuple[str, str | None]], found: Found) -> Iterator[str]:
    """What is wrong with what was found in a partition, as `key=value`."""
    read = [(key, value or None) for key, _, value in (text.partition("=") for _, text in found)]
    foreign = [value for _, value in read if value and not value.startswith(f"{life.number}:")]
    if foreign:
        yield f"values of another life: {foreign[:3]}"
    elif life.compacted:
        expected, table = (
            {key: value for key, value in dict(pairs).items() if value is not None}
            for pairs in (written, read)
        )
        if expected != table:
            wrong = sorted(
                key for key in expected.keys() | table.keys() if expected.get(key) != table.get(key)
            )
            yield (
                f"keys {wrong[:3]} have {[table.get(key) for key in wrong[:3]]}, not "
                f"{[expected.get(key) for key in wrong[:3]]}"
            )
    elif read != written:
        yield f"{len(read)} records are not the {len(written)} that were acknowledged"
