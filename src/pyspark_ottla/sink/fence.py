"""The fence: the one producer that decides for a sink.

Rules kept here:
1. Taking the fence id aborts what its last owner left undecided, and makes all its later writes
   fail. Only what is read after that is final.
2. A run takes the fence once. A process that continues for the same run, after another one ended,
   takes it over only if nobody else had it in between.
3. A decision is made when its transaction is committed; before that it is nothing.
4. The audit event of a decision is in the same transaction. Where the audit topic cannot
   be written, that is said in the log, and the decision is made without.
"""

from collections.abc import Iterable, Sequence
from time import time

from ottla.audit.events import AUDIT_TOPIC, Event
from ottla.client import Client, TopicPartition
from ottla.client.batch_sender import BatchSender
from ottla.client.transactional import IMPLICIT_PARTITIONS, TransactionKey, Transactions
from ottla.records import Codec, Record
from ottla.records.hashing import partition_of
from ottla.records.kernel import KERNEL
from ottla.wire.errors import ErrorCode, KafkaError
from pyspark_ottla.audit import not_reported
from pyspark_ottla.sink import steps
from pyspark_ottla.sink.errors import FencedError, SinkError
from pyspark_ottla.sink.marker import (
    Decision,
    Done,
    encode,
)
from pyspark_ottla.sink.marker_log import WHERE, read_marker
from pyspark_ottla.sink.names import fence_id
from pyspark_ottla.sink.steps import CommitStep
from pyspark_ottla.sink.topics import partition_count

FENCE_TIMEOUT_MS = 60_000
FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


class Fence:
    """The right to decide for a sink."""

    def __init__(
        self, client: Client, transactions: Transactions, sink: str, key: TransactionKey
    ) -> None:
        self._client = client
        self._transactions = transactions
        self._sink = sink
        self.key = key
        """What the next decision is made with."""

    @classmethod
    def take(cls, client: Client, transactions: Transactions, sink: str) -> "Fence":
        """Take the fence from its holder."""
        return cls(client, transactions, sink, _begin(transactions, sink, None))

    @classmethod
    def take_once(cls, client: Client, transactions: Transactions, sink: str, run: str) -> "Fence":
        """Take the fence for a run; raises FencedError where the run has had it and lost it."""
        marker = read_marker(client, sink)
        of = None
        if marker.decision is not None and marker.decision.run == run:
            producer_id, epoch = marker.producer
            # The end of the decision's transaction has raised the epoch (KIP-890).
            raised = int(transactions.version >= IMPLICIT_PARTITIONS)
            of = TransactionKey(fence_id(sink), producer_id, epoch + raised)
        return cls(client, transactions, sink, _begin(transactions, sink, of))

    def decide(self, decision: Decision, events: Sequence[Event] = ()) -> None:
        """Make a decision, and tell the audit of it; raises FencedError where another run has taken
        the fence.
        """
        if events:
            self._tell(events)
        self._send([(WHERE, self._sink.encode(), encode(decision))])
        is_done = isinstance(decision, Done)
        steps.reached(CommitStep.DONE_WRITTEN if is_done else CommitStep.PREPARED_WRITTEN)
        ending = self._transactions.end(
            [self.key], commit=True, end_txn_version=self._transactions.end_txn_version
        )[self.key]
        if ending.error_code in FENCED:
            raise FencedError(self._sink)
        if ending.error_code is not ErrorCode.NONE:
            raise SinkError(
                f"a decision of the sink {self._sink} could not be committed: "
                f"{ending.error_code.name}"
            )
        self.key = ending.next_key
        if self._transactions.version < IMPLICIT_PARTITIONS:
            # The epoch has not changed, and with it sequence numbers would have to continue.
            self.key = _begin(self._transactions, self._sink, self.key)
        steps.reached(CommitStep.DONE if is_done else CommitStep.PREPARED)

    def _tell(self, events: Sequence[Event]) -> None:
        try:
            partitions = partition_count(self._client, AUDIT_TOPIC)
            self._send(
                (
                    TopicPartition(AUDIT_TOPIC, partition_of(event.key(), partitions)),
                    event.key(),
                    event.encode(),
                )
                for event in events
            )
        except KafkaError as problem:
            not_reported(events, problem)

    def _send(self, records: Iterable[tuple[TopicPartition, bytes, bytes]]) -> None:
        """Write records in the fence's transaction, each with its partition, key and value."""
        sender = BatchSender(
            self._client, transaction=(self._transactions, self.key), codec=Codec.ZSTD
        )
        now = int(time() * 1000)
        try:
            for where, key, value in records:
                record = Record(0, now, key, value)
                sender.send(where, KERNEL.encode_records([record], 0, now), 1, now)
            sender.flush()
        except KafkaError as problem:
            if problem.code in FENCED:
                raise FencedError(self._sink) from None
            raise


def _begin(transactions: Transactions, sink: str, of: TransactionKey | None) -> TransactionKey:
    try:
        return transactions.begin(fence_id(sink), FENCE_TIMEOUT_MS, of=of)
    except KafkaError as problem:
        if problem.code in FENCED:
            raise FencedError(sink) from None
        raise
