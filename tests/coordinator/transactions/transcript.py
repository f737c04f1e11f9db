"""Scripts of transactional requests, and the answers to them.

A script is about one transactional id. Its steps are requests by name, and are written so that
the answers are the same wherever it is played: producer ids are numbered in the order in which
they were first seen, and after each step it is awaited that no transaction is being ended.

| step                                           | answer                                   |
|------------------------------------------------|------------------------------------------|
| init version producer epoch timeout            | error, producer, epoch                   |
| add version producer epoch verify partition... | an error for each partition              |
| offsets version producer epoch                 | error                                    |
| end version producer epoch commit              | error, producer, epoch                   |
| raise_epoch epoch timeout                      | nothing                                  |
| describe                                       | error, state, producer, epoch, timeout,  |
|                                                | partitions of offsets (how many), others |

`transcript.json` has scripts with the answers of Apache Kafka 4.3.0, written by
`transcript_recorder`.
"""

from pathlib import Path
from typing import Protocol, TypeAlias

from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsResponse
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

TRANSCRIPT = Path(__file__).with_name("transcript.json")
TOPIC = "transcript"
FOREIGN = 99
"""The number of a producer id that nobody was given."""

Step: TypeAlias = list[int | str]
Answer: TypeAlias = list[int | str]


class Coordinator(Protocol):
    """Something that scripts can be played on."""

    def init(self, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse: ...

    def add(
        self, request: AddPartitionsToTxnRequest, version: int
    ) -> AddPartitionsToTxnResponse: ...

    def offsets(self, request: AddOffsetsToTxnRequest, version: int) -> AddOffsetsToTxnResponse: ...

    def end(self, request: EndTxnRequest, version: int) -> EndTxnResponse: ...

    def describe(self, transactional_id: str) -> DescribeTransactionsResponse: ...

    def raise_epoch(self, transactional_id: str, timeout_ms: int, epoch: int) -> None:
        """Make producers until one has this epoch."""

    def settle(self, transactional_id: str) -> None:
        """Wait until no transaction is being ended."""


class Play:
    """One script on one coordinator."""

    def __init__(self, coordinator: Coordinator, transactional_id: str) -> None:
        self._coordinator = coordinator
        self._id = transactional_id
        self._numbers: dict[int, int] = {-1: -1}
        self._producer_ids = {-1: -1, FOREIGN: 1 << 50}

    def step(self, step: Step) -> Answer:
        """Play one step. All numbers but the name's place are ints."""
        name, *rest = step
        numbers = [int(number) for number in rest]
        answer = getattr(self, f"_{name}")(*numbers)
        self._coordinator.settle(self._id)
        assert isinstance(answer, list)
        return answer

    def _number(self, producer_id: int) -> int:
        if producer_id not in self._numbers:
            number = len(self._numbers) - 1
            self._numbers[producer_id] = number
            self._producer_ids[number] = producer_id
        return self._numbers[producer_id]

    def _init(self, version: int, producer: int, epoch: int, timeout_ms: int) -> Answer:
        reply = self._coordinator.init(
            InitProducerIdRequest(
                transactional_id=self._id,
                transaction_timeout_ms=timeout_ms,
                producer_id=self._producer_ids[producer],
                producer_epoch=epoch,
            ),
            version,
        )
        return [reply.error_code, self._number(reply.producer_id), reply.producer_epoch]

    def _add(self, version: int, producer: int, epoch: int, verify: int, *which: int) -> Answer:
        topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=list(which))]
        producer_id = self._producer_ids[producer]
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )
        else:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=self._id,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=bool(verify),
                topics=topics,
            )
            request = AddPartitionsToTxnRequest(transactions=[transaction])
        reply = self._coordinator.add(request, version)
        results = reply.results_by_topic_v3_and_below
        if version >= 4:
            results = reply.results_by_transaction[0].topic_results
        codes = {
            part.partition_index: part.partition_error_code
            for result in results
            for part in result.results_by_partition
        }
        return [codes[partition] for partition in which]

    def _offsets(self, version: int, producer: int, epoch: int) -> Answer:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer_ids[producer],
            producer_epoch=epoch,
            group_id="group",
        )
        return [self._coordinator.offsets(request, version).error_code]

    def _end(self, version: int, producer: int, epoch: int, commit: int) -> Answer:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer_ids[producer],
            producer_epoch=epoch,
            committed=bool(commit),
        )
        reply = self._coordinator.end(request, version)
        return [reply.error_code, self._number(reply.producer_id), reply.producer_epoch]

    def _raise_epoch(self, epoch: int, timeout_ms: int) -> Answer:
        self._coordinator.raise_epoch(self._id, timeout_ms, epoch)
        return []

    def _describe(self) -> Answer:
        (state,) = self._coordinator.describe(self._id).transaction_states
        if state.error_code:
            return [state.error_code]
        topics = {topic.topic: sorted(topic.partitions) for topic in state.topics}
        return [
            state.error_code,
            state.transaction_state,
            self._number(state.producer_id),
            state.producer_epoch,
            state.transaction_timeout_ms,
            # Which partition keeps the group's offsets is not the transaction's affair.
            len(topics.get("__consumer_offsets", [])),
            *topics.get(TOPIC, []),
        ]
