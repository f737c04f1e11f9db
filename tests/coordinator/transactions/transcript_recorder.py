"""Plays scripts of transactional requests on Apache Kafka, and writes down what it answers.

    python -m tests.coordinator.transactions.transcript_recorder HOST:PORT

makes `transcript.json` again, from a single Kafka broker of version 4.3.0 that has a
topic `transcript` with four partitions. It takes about a minute, most of it for the scripts in
which a producer id has used up its 32,767 epochs.

One answer is left out, since it is a defect: when the epochs are used up, and the producer states
another epoch than the current one, Kafka's InitProducerId is UNKNOWN_SERVER_ERROR, for a retry
too. Here it is PRODUCER_FENCED, and a retry gets its answer.
"""

import json
import random
import sys
from collections.abc import Iterator
from time import monotonic, sleep, time_ns
from typing import TypeVar

from ottla.wire.message import Message
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from testkit import raw
from testkit.waiting import stretched

from .transcript import FOREIGN, TOPIC, TRANSCRIPT, Answer, Play, Step

M = TypeVar("M", bound=Message)

TIMEOUT_MS = 60_000
LAST_CLIENT_EPOCH = 32766
RANDOM_SCRIPTS = 40
RANDOM_STEPS = 25


class Kafka:
    """A Kafka broker that coordinates everything itself."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._raw = raw.Connection(f"{address[0]}:{address[1]}")
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[TOPIC])
        while self._call(request, 4, FindCoordinatorResponse).coordinators[0].error_code:
            sleep(0.1)

    def init(self, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
        return self._call(request, version, InitProducerIdResponse)

    def add(self, request: AddPartitionsToTxnRequest, version: int) -> AddPartitionsToTxnResponse:
        return self._call(request, version, AddPartitionsToTxnResponse)

    def offsets(self, request: AddOffsetsToTxnRequest, version: int) -> AddOffsetsToTxnResponse:
        return self._call(request, version, AddOffsetsToTxnResponse)

    def end(self, request: EndTxnRequest, version: int) -> EndTxnResponse:
        return self._call(request, version, EndTxnResponse)

    def describe(self, transactional_id: str) -> DescribeTransactionsResponse:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        return self._call(request, 0, DescribeTransactionsResponse)

    def raise_epoch(self, transactional_id: str, timeout_ms: int, epoch: int) -> None:
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        while self.init(request, 4).producer_epoch < epoch:
            pass

    def settle(self, transactional_id: str) -> None:
        deadline = monotonic() + stretched(10)
        while monotonic() < deadline:
            (state,) = self.describe(transactional_id).transaction_states
            if not state.transaction_state.startswith("Prepare"):
                return
            sleep(0.001)
        raise TimeoutError(f"{transactional_id} is still being ended")

    def _call(self, request: Message, version: int, kind: type[M]) -> M:
        return self._raw.ask(request, kind, version)


def written_scripts() -> Iterator[tuple[str, list[Step]]]:
    """The scripts that someone thought of."""
    yield (
        "an id that nobody knows",
        [
            ["describe"],
            ["add", 3, FOREIGN, 0, 0, 0],
            ["add", 5, FOREIGN, 0, 0, 0],
            ["add", 5, FOREIGN, 0, 1, 0],
            ["offsets", 4, FOREIGN, 0],
            ["end", 1, FOREIGN, 0, 1],
            ["end", 5, FOREIGN, 0, 1],
        ],
    )
    yield (
        "timeouts and stated producers of InitProducerId",
        [
            ["init", 4, -1, -1, 0],
            ["init", 4, -1, -1, -1],
            ["init", 4, -1, -1, 900_001],
            ["init", 4, FOREIGN, -1, 1000],
            ["init", 4, -1, 0, 1000],
            ["init", 4, FOREIGN, 7, 900_000],
            ["describe"],
            ["init", 3, FOREIGN, 0, 1000],
            ["init", 4, FOREIGN, 0, 1000],
            ["init", 3, 0, 5, 1000],
            ["init", 4, 0, 5, 1000],
            ["init", 4, 0, 0, 1000],
            ["init", 4, 0, 0, 2000],
            ["init", 5, 0, 1, 2000],
            ["init", 5, 0, 0, 2000],
            ["init", 5, -1, -1, 2000],
            ["init", 5, 0, 2, 2000],
            ["describe"],
        ],
    )
    for state in ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort"):
        for end_version in (1, 4, 5):
            for commit in (1, 0):
                for delta in (0, -1, 1):
                    steps, epoch = steps_to(state, 5 if end_version == 5 else 4)
                    name = f"EndTxn {end_version} {commit=} with epoch {delta:+} in {state}"
                    yield name, [*steps, ["end", end_version, 0, epoch + delta, commit]]
        for version in range(6):
            steps, epoch = steps_to(state, 5)
            yield (
                f"AddPartitionsToTxn {version} in {state}",
                [
                    *steps,
                    ["add", version, 0, epoch - 1, 0, 2],
                    ["add", version, 0, epoch + 1, 0, 2],
                    ["add", version, FOREIGN, epoch, 0, 2],
                    ["add", version, 0, epoch, 1, 0, 3],
                    ["add", version, 0, epoch - 1, 1, 0, 3],
                    ["add", version, FOREIGN, epoch, 1, 0],
                    ["add", version, 0, epoch, 0, 2],
                    ["add", version, 0, epoch, 1, 0, 1, 2, 3],
                ],
            )
        for version in range(5):
            steps, epoch = steps_to(state, 4)
            yield (
                f"AddOffsetsToTxn {version} in {state}",
                [
                    *steps,
                    ["offsets", version, 0, epoch - 1],
                    ["offsets", version, FOREIGN, epoch],
                    ["offsets", version, 0, epoch],
                    ["offsets", version, 0, epoch],
                ],
            )
        for version in (2, 3, 4, 5):
            steps, epoch = steps_to(state, 5)
            asked: list[Step] = [["init", version, -1, -1, 1000]]
            if version > 2:
                stated = ((0, epoch), (0, epoch - 1), (0, epoch - 2), (FOREIGN, epoch))
                asked += [["init", version, *producer, 1000] for producer in stated]
            for step in asked:
                _, _, producer, stated_epoch, _ = step
                name = f"InitProducerId {version} of {producer} with {stated_epoch} in {state}"
                yield name, [*steps, step, step]


def steps_to(state: str, end_version: int) -> tuple[list[Step], int]:
    """Steps that lead to a state, and the epoch that the producer then has."""
    epoch = 3
    steps: list[Step] = [["init", 4, -1, -1, TIMEOUT_MS] for _ in range(epoch + 1)]
    if state != "Empty":
        steps.append(["add", 3 if end_version < 5 else 5, 0, epoch, 0, 0, 1])
    if state.startswith("Complete"):
        steps.append(["end", end_version, 0, epoch, int(state == "CompleteCommit")])
        epoch += end_version == 5
    return steps, epoch


def used_up_scripts() -> Iterator[tuple[str, list[Step]]]:
    """What happens when a producer id has no epochs left."""
    last = LAST_CLIENT_EPOCH
    start: list[Step] = [["init", 4, -1, -1, TIMEOUT_MS], ["raise_epoch", last, TIMEOUT_MS]]
    for commit in (1, 0):
        yield (
            f"the last epoch ends with EndTxn 5 {commit=}",
            [
                *start,
                ["add", 5, 0, last, 0, 0],
                ["end", 5, 0, last, commit],
                ["end", 5, 0, last, commit],
                ["end", 5, 0, last, 1 - commit],
                ["end", 4, 0, last, commit],
                ["add", 5, 0, last, 0, 0],
                ["init", 4, 0, last, TIMEOUT_MS],
                ["add", 5, 1, 0, 0, 0],
                ["end", 5, 0, last, commit],
                ["end", 5, 1, 0, commit],
            ],
        )
    yield (
        "the last epoch aborts nothing",
        [*start, ["end", 5, 0, last, 0], ["end", 5, 0, last, 0], ["end", 5, 1, 0, 0]],
    )
    yield (
        "the last epoch ends with EndTxn 4",
        [
            *start,
            ["add", 3, 0, last, 0, 0],
            ["end", 4, 0, last, 1],
            ["end", 4, 0, last, 1],
            ["init", 4, 0, last, TIMEOUT_MS],
            ["init", 4, 0, last, TIMEOUT_MS],
            ["init", 4, 1, 0, TIMEOUT_MS],
        ],
    )
    yield (
        "the last epoch is fenced",
        [
            *start,
            ["add", 5, 0, last, 0, 0],
            ["init", 4, -1, -1, TIMEOUT_MS],
            ["init", 4, -1, -1, TIMEOUT_MS],
            ["init", 4, 0, last, TIMEOUT_MS],
        ],
    )


def random_step(chance: random.Random, described: Answer) -> Step:
    """Something that a producer, or one that was fenced, could ask for."""
    producer, epoch = 0, 0
    if not described[0]:
        producer, epoch = int(described[2]), int(described[3])
    producer = chance.choice([producer] * 12 + [max(producer - 1, 0), FOREIGN])
    epoch = max(0, epoch + chance.choice([0] * 9 + [-1, -1, -1, 1, -2]))
    which = chance.sample(range(4), chance.randint(1, 3))
    match chance.randrange(10):
        case 0:
            return ["init", chance.randint(0, 5), -1, -1, TIMEOUT_MS]
        case 1:
            return ["init", chance.randint(3, 5), producer, epoch, TIMEOUT_MS]
        case 2 | 3 | 4:
            return ["add", chance.choice([0, 3, 4, 5, 5]), producer, epoch, 0, *which]
        case 5:
            return ["add", chance.choice([4, 5]), producer, epoch, 1, *which]
        case 6:
            return ["offsets", chance.randint(0, 4), producer, epoch]
        case _:
            return ["end", chance.choice([1, 4, 5, 5, 5]), producer, epoch, chance.randint(0, 1)]


def record(kafka: Kafka) -> Iterator[dict[str, object]]:
    """Play everything."""
    run = time_ns()
    for number, (name, steps) in enumerate([*written_scripts(), *used_up_scripts()]):
        play = Play(kafka, f"{run}-{number}")
        with_ends: list[Step] = [*steps, ["describe"]]
        yield {"name": name, "steps": [[step, play.step(step)] for step in with_ends]}
    for seed in range(RANDOM_SCRIPTS):
        chance = random.Random(seed)
        play = Play(kafka, f"{run}-random-{seed}")
        step: Step = ["init", 4, -1, -1, TIMEOUT_MS]
        lines: list[list[Step | Answer]] = []
        for _ in range(RANDOM_STEPS):
            lines.append([step, play.step(step)])
            described = play.step(["describe"])
            lines.append([["describe"], described])
            step = random_step(chance, described)
        yield {"name": f"at random, {seed}", "steps": lines}


def main(address: str) -> None:
    """Write the transcript of a broker."""
    host, _, port = address.rpartition(":")
    scripts = [
        json.dumps(script, separators=(",", ":")) for script in record(Kafka((host, int(port))))
    ]
    TRANSCRIPT.write_text("[\n" + ",\n".join(scripts) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1])
