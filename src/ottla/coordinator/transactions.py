"""The transaction coordinator of one partition of `__transaction_state`.

Rules kept here, beside those of every shard:
1. A transactional id has at most one transaction that is open or being ended. Who is fenced, what
   is a retry and what is refused say `transactions_state` and `transactions_end`.
2. A decision is one record. Only when it is committed may its markers be written: the runtime
   holds `markers` back exactly like replies.
3. The runtime sees that every marker of a TxnMarkers is tried, and tells each outcome once through
   `markers_written` of the shard that asked for it. What failed is asked for again after a while,
   until the last partition has its marker; then the transaction is complete.
4. Loading finds every transaction that was decided and not complete, and asks for all its markers
   again: a partition may get one twice, which changes nothing there.
5. A transaction that is open past its timeout is aborted, and its producer fenced.
6. A new producer id is asked for by raising NeedsProducerId, before anything was decided: the
   runtime gets one and calls again with it. An id that was not used is lost, which is no harm.

Kafka answers CONCURRENT_TRANSACTIONS while a change of an id is being written to its log. Here a
change takes effect when it is appended, and what is answered next is held until it is committed:
of Kafka's pending states only "decided, markers not yet written" is left.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeVar

from ottla.coordinator.shard import (
    CancelTimer,
    CoordinatorRecord,
    RequestContext,
    Result,
    SetTimer,
)
from ottla.coordinator.transactions_end import is_to_be_ended
from ottla.coordinator.transactions_queries import Matcher, described, listed, result_for_each
from ottla.coordinator.transactions_state import (
    AT_REST,
    DECIDED,
    EPOCH_BUMP_VERSION,
    LAST_CLIENT_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    Transaction,
    TransactionState,
)
from ottla.coordinator.txn_records import read_record, record_of, tombstone_of
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

R = TypeVar("R")

OFFSETS_TOPIC = "__consumer_offsets"
MARKER_RETRY_MS = 100
TOMBSTONES_AT_ONCE = 1000

# The first versions that know PRODUCER_FENCED; older clients are told INVALID_PRODUCER_EPOCH.
_FENCED_FROM_INIT = 4
_FENCED_FROM_ADD = 2
_FENCED_FROM_END = 2

# The first versions that only clients and brokers with transaction version 2 send.
_VERSION_2_FROM_ADD = 4
_VERSION_2_FROM_END = 5

MARKER_NOT_NEEDED = frozenset(
    {
        ErrorCode.NONE,
        # The partition has seen a later epoch of the producer, so this transaction is over there.
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""What partitions say that need no marker, or no other."""


class NeedsProducerId(Exception):  # noqa: N818 - a question to the caller, not an error
    """Call again with `new_producer_id`: nothing was decided, nothing has changed."""


class TimerKind(Enum):
    """What a shard's timers are for."""

    TRANSACTION_TIMEOUT = "transaction timeout"
    MARKER_RETRY = "marker retry"
    ID_EXPIRATION = "id expiration"


class TimerKey(NamedTuple):
    """A shard's timer."""

    kind: TimerKind
    transactional_id: str = ""


class TxnMarkers(NamedTuple):
    """Markers to be written, once the records of the Result that has them are committed."""

    transactional_id: str
    decision: int
    """Tells this end of a transaction from any other in the shard."""
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    partitions: tuple[TopicPartition, ...]
    """Those of OFFSETS_TOPIC stand for the groups whose offsets are part of the transaction."""


@dataclass(slots=True)
class TxnResult(Result[R]):
    """A Result with markers to be written."""

    markers: list[TxnMarkers] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """The broker's settings for transactions, under Kafka's names."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000


class _Unmarked:
    """The partitions of a decided transaction that are not known to have its marker."""

    __slots__ = ("decision", "failed", "partitions")

    def __init__(self, decision: int, partitions: frozenset[TopicPartition]) -> None:
        self.decision = decision
        self.partitions = set(partitions)
        self.failed: set[TopicPartition] = set()
        """Those to be asked for again."""


class TransactionShard:
    """All transactional ids of one partition. See the rules above."""

    def __init__(self, config: TransactionConfig, coordinator_epoch: int) -> None:
        self._config = config
        self._coordinator_epoch = coordinator_epoch
        self._transactions: dict[str, Transaction] = {}
        self._unmarked: dict[str, _Unmarked] = {}
        self._replayed = 0

    def replay(self, record: CoordinatorRecord) -> None:
        """Take in a record: the only way in which transactions change."""
        self._replayed += 1
        said = read_record(record)
        if said is None:
            return
        transactional_id, transaction = said
        self._unmarked.pop(transactional_id, None)
        if transaction is None:
            self._transactions.pop(transactional_id, None)
            return
        self._transactions[transactional_id] = transaction
        if transaction.state in DECIDED:
            self._unmarked[transactional_id] = _Unmarked(self._replayed, transaction.partitions)

    def loaded(self, now: int) -> TxnResult[None]:
        """Go on with what an earlier coordinator left: ends to be carried out, open transactions."""
        result: TxnResult[None] = TxnResult(None)
        for transactional_id, unmarked in self._unmarked.items():
            transaction = self._transactions[transactional_id]
            if unmarked.partitions:
                result.markers.append(
                    self._markers(transaction, unmarked.decision, unmarked.partitions)
                )
            else:
                result.records.append(record_of(transaction.completed(now)))
        for transaction in self._transactions.values():
            if transaction.state is TransactionState.ONGOING:
                result.timers.append(_timeout_of(transaction))
        result.timers.append(self._next_expiration(now))
        return result

    def expire(
        self, key: TimerKey, now: int, new_producer_id: int | None = None
    ) -> TxnResult[None]:
        """Do what a timer was set for. Raises NeedsProducerId."""
        if key.kind is TimerKind.ID_EXPIRATION:
            return self._forget_unused(now)
        result: TxnResult[None] = TxnResult(None)
        if key.kind is TimerKind.MARKER_RETRY:
            unmarked = self._unmarked.get(key.transactional_id)
            if unmarked is not None and unmarked.failed:
                transaction = self._transactions[key.transactional_id]
                result.markers.append(
                    self._markers(transaction, unmarked.decision, unmarked.failed)
                )
                unmarked.failed.clear()
            return result
        transaction_ = self._transactions.get(key.transactional_id)
        if transaction_ is not None and transaction_.state is TransactionState.ONGOING:
            self._end(
                result,
                transaction_,
                commit=False,
                version=EPOCH_BUMP_VERSION,
                now=now,
                new_producer_id=new_producer_id,
            )
        return result

    def handle_init_producer_id(
        self,
        request: InitProducerIdRequest,
        context: RequestContext,
        now: int,
        new_producer_id: int | None = None,
    ) -> TxnResult[InitProducerIdResponse]:
        """Give a producer its id and epoch, and fence those before it. Raises NeedsProducerId."""
        result = TxnResult(InitProducerIdResponse(producer_epoch=NO_PRODUCER_EPOCH))
        try:
            transaction = self._initialized(result, request, now, new_producer_id)
        except KafkaError as problem:
            result.reply.error_code = _code(problem, context.version >= _FENCED_FROM_INIT)
            return result
        result.records.append(record_of(transaction))
        result.reply.producer_id = transaction.producer_id
        result.reply.producer_epoch = transaction.producer_epoch
        return result
