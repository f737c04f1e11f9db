"""Idempotent producers with acks=all: every key's records are numbered, without a hole.

Rules kept here:
1. A producer never gives up on a record: at the end, after `finish`, all were acknowledged. So what
   must be found is, for each key, the numbers from 0 on, in order and each once.
2. A record that fails all the same, or a fatal error, is a finding.
"""

import threading
import time
from collections import Counter

from confluent_kafka import KafkaError, Message, Producer

PATIENT = {
    "topic.metadata.refresh.interval.ms": 1000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 300,
    "retry.backoff.ms": 50,
    "socket.timeout.ms": 5000,
    "log_level": 0,
}
"""Settings of all clients here: look again soon, and to give up silent brokers."""
NEVER_MS = 3_600_000
TURN_SECONDS = 0.1
MOST_WAITING = 3000
FLUSH_SECONDS = 180.0


class Writer:
    """Writes a steady stream to one topic."""

    def __init__(self, bootstrap: str, topic: str, name: str, keys: int, per_second: int) -> None:
        self._topic = topic
        self._keys = [f"{name}.{number}" for number in range(keys)]
        self._in_a_turn = max(1, int(per_second * TURN_SECONDS))
        self._producer = Producer(
            {
                **PATIENT,
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": NEVER_MS,
            }
        )
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.written: Counter[str] = Counter()
        self.acknowledged = 0
        self.findings: list[str] = []

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> None:
        """Write nothing more, and wait until all was acknowledged."""
        self._end.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_SECONDS)
        if left:
            self.findings.append(f"{left} records of {self._topic} were never acknowledged")

    def _run(self) -> None:
        turn = 0
        while not self._end.is_set():
            if len(self._producer) < MOST_WAITING:
                for _ in range(self._in_a_turn):
                    key = self._keys[turn % len(self._keys)]
                    turn += 1
                    self._producer.produce(
                        self._topic,
                        f"{key}:{self.written[key]}",
                        key,
                        callback=self._told,
                    )
                    self.written[key] += 1
            began = time.monotonic()
            while (left := TURN_SECONDS - (time.monotonic() - began)) > 0:
                self._producer.poll(left)

    def _told(self, problem: KafkaError | None, message: Message) -> None:
        if problem is None:
            self.acknowledged += 1
        elif len(self.findings) < 10:
            self.findings.append(f"{self._topic}: {message.value()!r} failed: {problem}")
