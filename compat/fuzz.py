"""The fuzzer: inputs of `fuzz_inputs` against a running broker, round by round.

What must hold after every round: the process lives, a health request is answered within a second
on an old connection and on a new one, and the log holds no traceback. At the end: memory has not
grown beyond a bound.

Rules kept here:
1. Every input is counted once, and only after the broker has dealt with it: requests go out many
   at a time, and what stood behind one that ended its connection is sent again on the next.
2. A round is drawn from the seed and its number alone; a failure names both, and writes the
   inputs since the last good health check to a file.
"""

import socket
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic
from uuid import UUID

from compat.fuzz_inputs import TOPICS, Inputs
from ottla.wire.apis import ApiKey
from ottla.wire.headers import write_request_header
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from testkit.process import BrokerError, BrokerProcess
from testkit.raw import PATIENCE_SECONDS, SIZE, ClosedError, Connection, address, frame, served

ROUND_INPUTS = 500
VALID_TOGETHER = 50
SPOILED_TOGETHER = 3
"""Requests sent on one connection before their replies are read: most spoiled ones end it."""
AT_ONCE = 16
"""Connections that are written to before the first is read: the broker need not wait for us."""
BROKEN_SHARE = 0.1
VALID_SHARE = 0.3
HEALTH_SECONDS = 1.0
ANSWER_SECONDS = 0.25
"""Longer than any request takes that does not wait; a fetch or join that waits is left to."""
LEAST_WAIT_SECONDS = 0.001
TIDY_ROUNDS = 40
LARGEST_LOG = 20 * 1024 * 1024
MOST_GROWTH = 64 * 1024 * 1024
WARM_UP_ROUNDS = 20
GROUP, TRANSACTION = 0, 1

SETTINGS = {
    # Every odd name would become a topic, and memory would grow permanently reason.
    "auto.create.topics.enable": "false",
    # Joins are answered at once.
    "group.initial.rebalance.delay.ms": "0",
}


class FuzzError(Exception):
    """The broker failed; the message says how, and how to see it again."""


@dataclass
class Outcome:
    """What a run did."""

    inputs: int = 0
    connections: int = 0
    seconds: float = 0.0
    memory_before: int = 0
    memory_after: int = 0

    @property
    def growth(self) -> int:
        """Bytes of resident memory more than after the warm-up."""
        return self.memory_after - self.memory_before


class Fuzzer:
    """One run against one broker."""

    def __init__(self, broker: BrokerProcess, seed: int, failures: Path) -> None:
        self.broker = broker
        self.seed = seed
        self.failures = failures
        self.outcome = Outcome()
        self._recent: list[bytes] = []
        self._health = Connection(broker.bootstrap, HEALTH_SECONDS)
        self.served = served(broker.bootstrap)
        self._topic_ids: list[UUID] = []
        self._tidy()

    def run(
        self, inputs: int, first_round: int = 0, report: Callable[[Outcome], None] | None = None
    ) -> Outcome:
        """Send at least so many inputs; raise FuzzError at the first failure."""
        started = monotonic()
        number = first_round
        try:
            while self.outcome.inputs < inputs:
                self._round(number)
                number += 1
                if number - first_round == WARM_UP_ROUNDS or self.outcome.memory_before == 0:
                    self.outcome.memory_before = self.broker.memory().resident
                if number % TIDY_ROUNDS == 0:
                    self._tidy()
                    self.outcome.seconds = monotonic() - started
                    self.outcome.memory_after = self.broker.memory().resident
                    if report is not None:
                        report(self.outcome)
            self._tidy()
            self.outcome.memory_after = self.broker.memory().resident
        except (ClosedError, TimeoutError, ConnectionError, BrokerError, AssertionError) as problem:
            raise self._failure(number, f"{type(problem).__name__}: {problem}") from None
        finally:
            self._health.close()
        self.outcome.seconds = monotonic() - started
        if self.outcome.growth > MOST_GROWTH:
            raise FuzzError(
                f"memory grew by {self.outcome.growth >> 20} MB over {self.outcome.inputs:,} inputs"
            )
        return self.outcome

    def _round(self, number: int) -> None:
        chance = Random(f"{self.seed}:{number}")
        source = Inputs(chance, self.served)
        source.topic_ids += self._topic_ids
        valid: deque[bytes] = deque()
        spoiled: deque[bytes] = deque()
        streams = []
        for _ in range(ROUND_INPUTS):
            dice = chance.random()
            if dice < BROKEN_SHARE:
                streams.append(source.broken_stream())
            elif dice < BROKEN_SHARE + VALID_SHARE:
                valid.append(source.valid())
            else:
                spoiled.append(source.spoiled())
        self._recent = [*streams, *valid, *spoiled]
        with ExitStack() as waiting:
            for stream in streams:
                self._send_stream(stream, chance, waiting)
            while valid:
                self._send_requests(valid, VALID_TOGETHER, waiting)
            while spoiled:
                self._send_requests(spoiled, SPOILED_TOGETHER, waiting)
        self._check_health(number)
        self.outcome.inputs += ROUND_INPUTS

    def _connect(self) -> socket.socket:
        self.outcome.connections += 1
        connection = socket.create_connection(address(self.broker.bootstrap), HEALTH_SECONDS)
        connection.settimeout(ANSWER_SECONDS)
        return connection

    def _send_stream(self, stream: bytes, chance: Random, waiting: ExitStack) -> None:
        """Broken framing on a connection of its own; some leave at once, some by half."""
        connection = self._connect()
        try:
            connection.sendall(stream)
            way = chance.randrange(3)
            if way == 0:
                connection.close()
                return
            if way == 1:
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
                connection.close()
                return
        except (ConnectionError, TimeoutError, OSError):
            pass
        waiting.callback(connection.close)

    def _send_requests(self, requests: deque[bytes], together: int, waiting: ExitStack) -> None:
        """Some connections' worth of requests; what they did not come to goes back in the queue."""
        sent: list[tuple[socket.socket, list[bytes]]] = []
        while requests and len(sent) < AT_ONCE:
            batch = [requests.popleft() for _ in range(min(together, len(requests)))]
            connection = self._connect()
            try:
                connection.sendall(_numbered(batch))
            except (ConnectionError, TimeoutError):
                pass
            sent.append((connection, batch))
        deadline = monotonic() + ANSWER_SECONDS
        for connection, batch in sent:
            last = _last_answered(connection, len(batch), deadline)
            if last == len(batch):
                connection.close()
            else:
                # The next one ended the connection, or still waits: it was dealt with anyway.
                waiting.callback(connection.close)
                requests.extend(batch[last + 2 :])

    # Checks ---------------------------------------------------------------------------------

    def _check_health(self, number: int) -> None:
        if not self.broker.is_running:
            raise self._failure(number, "the broker died")
        try:
            self._ask_metadata(self._health)
            with Connection(self.broker.bootstrap, HEALTH_SECONDS) as fresh:
                self._ask_metadata(fresh)
        except TimeoutError:
            raise self._failure(number, f"no answer within {HEALTH_SECONDS} s") from None
        if problems := self.broker.tracebacks():
            raise self._failure(number, f"a traceback in the log:\n{problems[0]}")
        if self.broker.log.stat().st_size > LARGEST_LOG:
            self.broker.forget_log()

    def _ask_metadata(self, connection: Connection) -> MetadataResponse:
        return connection.ask(MetadataRequest(topics=None), MetadataResponse, 12)

    def _tidy(self) -> None:
        """Make the broker's topics what they were at the start: that is not growth."""
        with Connection(self.broker.bootstrap) as connection:
            names = [
                found.name or ""
                for found in self._ask_metadata(connection).topics
                if not found.is_internal
            ]
            for at in range(0, len(names), 100):
                request = DeleteTopicsRequest(topic_names=names[at : at + 100], timeout_ms=30_000)
                connection.ask(request, DeleteTopicsResponse, 5)
            wanted = [
                CreatableTopic(name=name, num_partitions=2, replication_factor=1)
                for name in TOPICS[:4]
            ]
            request_again = CreateTopicsRequest(topics=wanted, timeout_ms=30_000)
            created = connection.ask(request_again, CreateTopicsResponse, 7)
            self._topic_ids = [found.topic_id for found in created.topics]
            if ApiKey.FIND_COORDINATOR in self.served:
                self._wake_coordinators(connection)

    def _wake_coordinators(self, connection: Connection) -> None:
        """Groups and transactions are served from the first time that someone looks for them."""
        for kind in (GROUP, TRANSACTION):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=TOPICS)
            answer = connection.ask(request, FindCoordinatorResponse, 4)
            deadline = monotonic() + PATIENCE_SECONDS
            while any(found.error_code for found in answer.coordinators):
                if monotonic() > deadline:
                    raise BrokerError(f"no coordinator: {answer.coordinators}")
                answer = connection.ask(request, FindCoordinatorResponse, 4)

    def _failure(self, number: int, what: str) -> FuzzError:
        self.failures.mkdir(parents=True, exist_ok=True)
        path = self.failures / f"fuzz-{self.seed}-{number}.hex"
        path.write_text("\n".join(data.hex() for data in self._recent) + "\n")
        return FuzzError(
            f"{what}\nseed {self.seed}, round {number}; its inputs are in {path}\n"
            f"the broker's last words:\n{self.broker.last_words()}"
        )


def _numbered(batch: list[bytes]) -> bytes:
    """Requests with their place as correlation id, and a last one that is always answered."""
    frames = [
        frame(request[:4] + SIZE.pack(number) + request[8:]) for number, request in enumerate(batch)
    ]
    sentinel = write_request_header(ApiVersionsRequest.API_KEY, 0, len(batch))
    return b"".join([*frames, frame(sentinel)])


def _last_answered(connection: socket.socket, sentinel: int, deadline: float) -> int:
    """Read until the sentinel's reply, the end, or the deadline; -1 for no reply at all."""
    last = -1
    received = bytearray()
    try:
        while last != sentinel:
            connection.settimeout(max(LEAST_WAIT_SECONDS, deadline - monotonic()))
            chunk = connection.recv(1 << 20)
            if not chunk:
                return last
            received += chunk
            at = 0
            while len(received) - at >= 8:
                size = int.from_bytes(received[at : at + 4], "big", signed=True)
                if len(received) - at < size + 4:
                    break
                last = int.from_bytes(received[at + 4 : at + 8], "big", signed=True)
                at += size + 4
            del received[:at]
    except (ConnectionError, TimeoutError):
        pass
    return last
