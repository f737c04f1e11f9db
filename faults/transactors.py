"""Transactional producers: each transaction's outcome is known, or known to be one of two.

Rules kept here:
1. Committed: the commit was confirmed. Aborted: it was never asked for, or librdkafka says that it
   was not done. Unknown: it was asked for, and the producer ended before it heard; then all of its
   records are there or none.
2. What can be tried again is; what must be aborted is aborted; after anything else the producer is
   given up, and a new one with the same transactional id takes over. That is librdkafka's own rule.
3. Errors are counted by what was done and what was said.
"""

import random
import threading
from collections import Counter
from enum import IntEnum

from confluent_kafka import KafkaError, KafkaException, Producer

from faults.writers import PATIENT

CALL_SECONDS = 15.0
ABORTS = 0.25
MOST_IN_A_TRANSACTION = 30
TIMEOUT_MS = 60_000
PAUSE_SECONDS = 0.1


class Outcome(IntEnum):
    """How a transaction ended."""

    ABORTED = 0
    COMMITTED = 1
    UNKNOWN = 2


class _GivenUpError(Exception):
    """The producer cannot continue."""


class Transactor:
    """One transactional id."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, name: str, seed: int) -> None:
        self._settings: dict[str, str | int | float | bool] = {
            **PATIENT,
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": TIMEOUT_MS,
            "linger.ms": 1,
        }
        self._topic = topic
        self._partitions = partitions
        self._rng = random.Random(f"{name} {seed}")
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.name = name
        self.outcomes: list[tuple[Outcome, int]] = []
        """Of each transaction: how it ended, and how many records were sent."""
        self.errors: Counter[str] = Counter()
        self.failed = ""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> None:
        """Stop beginning transactions, and end the open one."""
        self._end.set()
        self._thread.join()

    @property
    def committed(self) -> int:
        """How many transactions were."""
        return sum(outcome is Outcome.COMMITTED for outcome, _ in self.outcomes)

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                producer = self._new_producer()
                try:
                    while producer is not None and not self._end.is_set():
                        self._transaction(producer)
                        self._end.wait(PAUSE_SECONDS)
                except _GivenUpError:
                    pass
        except Exception as problem:  # noqa: BLE001 the run reports it
            self.failed = f"{self.name}: {problem!r}"

    def _new_producer(self) -> Producer | None:
        producer = Producer(self._settings)
        try:
            self._insist("init", producer.init_transactions, ends=True)
        except _GivenUpError:
            return None
        return producer

    def _transaction(self, producer: Producer) -> None:
        number = len(self.outcomes)
        size = self._rng.randrange(1, MOST_IN_A_TRANSACTION)
        wants_commit = self._rng.random() >= ABORTS
        self.outcomes.append((Outcome.ABORTED, size))
        try:
            producer.begin_transaction()
            for place in range(size):
                producer.produce(
                    self._topic,
                    f"{self.name}:{number}:{place}",
                    partition=self._rng.randrange(self._partitions),
                )
        except KafkaException as problem:
            self._count("produce", problem.args[0])
            self._abort_after(problem.args[0], producer)
            return
        if not wants_commit:
            self._insist("abort", producer.abort_transaction)
            return
        self.outcomes[number] = (Outcome.UNKNOWN, size)
        while True:
            try:
                producer.commit_transaction(CALL_SECONDS)
            except KafkaException as problem:
                error: KafkaError = problem.args[0]
                self._count("commit", error)
                if error.retriable():
                    continue
                if error.txn_requires_abort():
                    self.outcomes[number] = (Outcome.ABORTED, size)
                self._abort_after(error, producer)
                return
            self.outcomes[number] = (Outcome.COMMITTED, size)
            return

    def _abort_after(self, error: KafkaError, producer: Producer) -> None:
        if not error.txn_requires_abort():
            raise _GivenUpError
        self._insist("abort", producer.abort_transaction)

    def _insist(self, what: str, call: object, *, ends: bool = False) -> None:
        """Call until it is done; raises _GivenUpError where it never will be."""
        assert callable(call)
        while True:
            try:
                call(CALL_SECONDS)
            except KafkaException as problem:
                error: KafkaError = problem.args[0]
                self._count(what, error)
                if not error.retriable() or (ends and self._end.is_set()):
                    raise _GivenUpError from None
            else:
                return

    def _count(self, what: str, error: KafkaError) -> None:
        kind = "fatal " if error.fatal() else ""
        self.errors[f"{what}: {kind}{error.name()}"] += 1
