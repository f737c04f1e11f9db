"""kill -9 of a broker under load, round after round, with one idempotent producer all the while.

What must hold at the end, for every partition:
1. Every record that was acknowledged stands at the offset of its acknowledgement.
2. No record stands there twice.
3. Offsets have no gaps, and records come in the order in which they were sent.

When a round kills is decided by how many records it has seen acknowledged, drawn from a seed, so
there is nothing to sleep for. After each kill the same data is served again on the same port, and
the producer continues by itself.
"""

import random
from dataclasses import dataclass, field
from time import monotonic

from confluent_kafka import KafkaError, Producer
from confluent_kafka import Message as Delivered

from testkit.clients.confluent import Confluent
from testkit.process import BrokerProcess

PARTITIONS = 3
POLL_SECONDS = 0.01
MOST_UNACKNOWLEDGED = 5_000
LEAST_ACKNOWLEDGED = 500
MOST_ACKNOWLEDGED = 10_000
VALUE_BYTES = 100
ROUND_SECONDS = 60.0
FLUSH_SECONDS = 120.0


class LostError(Exception):
    """A promise was broken: the message says which."""


@dataclass
class Load:
    """A producer that numbers its records in each partition, and what became of them."""

    bootstrap: str
    topic: str
    sent: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    acknowledged: list[dict[int, int]] = field(
        default_factory=lambda: [{} for _ in range(PARTITIONS)]
    )
    """For each partition, the offset of each record by its number."""
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 1,
            # A dead broker is expected here: find it again soon, and do not report each attempt.
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        self.producer = Producer(settings)

    @property
    def total(self) -> int:
        """How many records have been acknowledged."""
        return sum(len(partition) for partition in self.acknowledged)

    def run_until(self, total: int) -> None:
        """Send without pause until so many records in all have been acknowledged."""
        deadline = monotonic() + ROUND_SECONDS
        while self.total < total:
            if sum(self.sent) - self.total < MOST_UNACKNOWLEDGED:
                for partition in range(PARTITIONS):
                    self._send(partition)
            else:
                self.producer.poll(POLL_SECONDS)
            if self.failures:
                raise LostError(f"the producer gave up: {self.failures[0]}")
            if monotonic() > deadline:
                raise LostError(f"{self.total} of {total} records acknowledged in time")

    def finish(self) -> None:
        """Wait until nothing is unacknowledged."""
        left = self.producer.flush(FLUSH_SECONDS)
        if left or self.failures:
            raise LostError(f"{left} records never acknowledged; {self.failures[:1]}")

    def _send(self, partition: int) -> None:
        number = self.sent[partition]
        self.sent[partition] += 1

        def delivered(problem: KafkaError | None, delivery: Delivered) -> None:
            offset = delivery.offset()
            if problem is not None or offset is None:
                self.failures.append(str(problem))
            else:
                self.acknowledged[partition][number] = offset

        self.producer.produce(
            self.topic, b"%*d" % (VALUE_BYTES, number), partition=partition, callback=delivered
        )
        self.producer.poll(0)

    def check(self) -> int:
        """Read everything back and compare; return the number of records."""
        client = Confluent(self.bootstrap)
        for partition in range(PARTITIONS):
            first, end = client.offsets(self.topic, partition)
            if (first, end) != (0, self.sent[partition]):
                raise LostError(
                    f"partition {partition}: {self.sent[partition]} records sent and "
                    f"acknowledged, offsets {first} to {end}"
                )
            received = client.consume(self.topic, partition, 0, end)
            self._compare(partition, [(r.offset, int(r.value or b"-1")) for r in received])
        return sum(self.sent)

    def _compare(self, partition: int, found: list[tuple[int, int]]) -> None:
        for place, (offset, number) in enumerate(found):
            if offset != place:
                raise LostError(f"partition {partition}: offset {offset} follows {place - 1}")
            if number != place:
                raise LostError(
                    f"partition {partition}: record {number} at offset {offset}: "
                    "lost, doubled or out of order"
                )
            if self.acknowledged[partition][number] != offset:
                raise LostError(
                    f"partition {partition}: record {number} was acknowledged at "
                    f"{self.acknowledged[partition][number]} and stands at {offset}"
                )


def run(broker: BrokerProcess, rounds: int, seed: int, report: "Report | None" = None) -> int:
    """Kill a started broker so many times under load; return how many records all survived."""
    chance = random.Random(seed)
    topic = f"kill-{seed}"
    Confluent(broker.bootstrap).create_topic(topic, PARTITIONS)
    load = Load(broker.bootstrap, topic)
    for number in range(1, rounds + 1):
        load.run_until(load.total + chance.randint(LEAST_ACKNOWLEDGED, MOST_ACKNOWLEDGED))
        broker.kill()
        started = monotonic()
        broker.start()
        if report is not None:
            report(number, load.total, monotonic() - started)
    load.run_until(load.total + LEAST_ACKNOWLEDGED)
    load.finish()
    if problems := broker.tracebacks():
        raise LostError(f"a traceback in the broker's log:\n{problems[0]}")
    return load.check()


class Report:
    """Told after each round: its number, records acknowledged so far, seconds of the restart."""

    def __call__(self, number: int, acknowledged: int, restart_seconds: float) -> None:
        """Print one line."""
        print(
            f"  round {number}: {acknowledged:,} acknowledged, back in {restart_seconds:.2f} s",
            flush=True,
        )
