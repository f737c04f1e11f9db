"""The transaction coordinator of one partition of `__transaction_state`.

Rules kept here, beside those of every shard:
1. A transactional id has at most one transaction that is open or being ended.
   `state` has the states and moves, `end` who may end what.
2. A decision is one record, and is carried out after it is committed: `effects` says how. A marker
   that could not be written is asked for again after a while, until all partitions have theirs;
   then the transaction is complete.
3. Loading finds every transaction that was decided and not completed, and asks for all its
   markers again: a partition may get one twice, which changes nothing there.
4. A transaction that is open past its timeout is aborted, and its producer fenced.
5. A transactional id that has nothing open and was not used for long is forgotten.
6. What does not fit into a batch is refused (UNKNOWN_SERVER_ERROR, as in Kafka). A transaction
   takes partitions only as long as its end can be written too; an end that nobody asked for, and
   that cannot be written, is tried again after a while.

Kafka answers CONCURRENT_TRANSACTIONS while a change of an id is being written to its log. Here a
change takes effect when it is appended, and what is answered after it is held until it is
committed: of Kafka's pending states only "decided, not yet complete" is left.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ottla.coordinator.batch_sizes import UNLIMITED, batch_size, fits
from ottla.coordinator.shard import (
    CancelTimer,
    CoordinatorRecord,
    RequestContext,
    Result,
    SetTimer,
    UnknownRecordError,
)
from ottla.coordinator.transactions.effects import TxnMarkers
from ottla.coordinator.transactions.end import is_to_be_ended
from ottla.coordinator.transactions.init import initialized, needed
from ottla.coordinator.transactions.markers import LAST_RETRY_MS, Unmarked
from ottla.coordinator.transactions.queries import Matcher, described, listed, result_for_each
from ottla.coordinator.transactions.records import read_record, record_of, tombstone_of
from ottla.coordinator.transactions.state import (
    AT_REST,
    DECIDED,
    EPOCH_BUMP_VERSION,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionPartition,
    TransactionState,
)
from ottla.coordinator.transactions.timers import TransactionTimer, TransactionTimerKind
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
TOMBSTONES_AT_ONCE = 1000
ROOM_TO_END = 64
"""By how much the record of a decision can be longer than that of the open transaction: it may name
the next producer id."""

# The first versions that know PRODUCER_FENCED: older clients get INVALID_PRODUCER_EPOCH.
_FENCED_FROM_INIT = 4
_FENCED_FROM_ADD = 2
_FENCED_FROM_END = 2

# The first versions that stand for transaction version 2.
_VERSION_2_FROM_ADD = 4
_VERSION_2_FROM_END = 5


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """The broker's settings for transactions, under Kafka's names."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000


class TransactionShard:
    """All transactional ids of one partition."""

    def __init__(
        self,
        config: TransactionConfig,
        coordinator_epoch: int,
        largest_batch: Callable[[], int] = lambda: UNLIMITED,
    ) -> None:
        """The coordinator epoch is the leader epoch of the partition; markers carry it.

        `largest_batch` says what the partition takes at the moment.
        """
        self._config = config
        self._largest_batch = largest_batch
        self._coordinator_epoch = coordinator_epoch
        self._transactions: dict[str, Transaction] = {}
        self._unmarked: dict[str, Unmarked] = {}
        self._replayed = 0
        self.skipped: Counter[str] = Counter()
        """What `replay` skipped because nobody here knows it, with the number of records."""

    # --- the log and the clock

    def replay(self, record: CoordinatorRecord) -> None:
        """Take in a record: the only way in which transactions change."""
        self._replayed += 1
        try:
            transactional_id, transaction = read_record(record)
        except UnknownRecordError as unknown:
            self.skipped[str(unknown)] += 1
            return
        self._unmarked.pop(transactional_id, None)
        if transaction is None:
            self._transactions.pop(transactional_id, None)
            return
        self._transactions[transactional_id] = transaction
        if transaction.state in DECIDED:
            self._unmarked[transactional_id] = Unmarked(self._replayed, transaction.partitions)

    def loaded(self, now: int) -> Result[None]:
        """Continue with what was left: ends to be carried out, open transactions to be watched."""
        result: Result[None] = Result(None, is_atomic=False)
        for transaction in self._transactions.values():
            if transaction.state is TransactionState.ONGOING:
                result.timers.append(_timeout_of(transaction, transaction.time_left_ms(now)))
            elif transaction.state in DECIDED:
                unmarked = self._unmarked[transaction.transactional_id]
                self._carry_out(result, transaction, unmarked.decision, now)
        result.timers.append(self._next_expiration())
        return result

    def expire(
        self, key: TransactionTimer, now: int, new_producer_id: int | None = None
    ) -> Result[None]:
        """Do what a timer was set for. Raises NeedsProducerId."""
        result: Result[None] = Result(None)
        transaction = self._transactions.get(key.transactional_id)
        if key.kind is TransactionTimerKind.ID_EXPIRATION:
            self._forget_unused(result, now)
        elif transaction is None:
            pass
        elif key.kind is TransactionTimerKind.MARKER_RETRY:
            unmarked = self._unmarked.get(key.transactional_id)
            if unmarked is None:
                pass
            elif not unmarked.partitions:
                self._complete(result, transaction, now)
            elif failed := unmarked.take_failed():
                result.effects.append(self._markers(transaction, unmarked.decision, failed))
        elif transaction.state is TransactionState.ONGOING:
            try:
                self._abort_and_fence(result, transaction, now, new_producer_id)
            except KafkaError:
                return Result(None, timers=[SetTimer(key, LAST_RETRY_MS)])
        return result

    # --- the producer

    def handle_init_producer_id(
        self,
        request: InitProducerIdRequest,
        context: RequestContext,
        now: int,
        new_producer_id: int | None = None,
    ) -> Result[InitProducerIdResponse]:
        """Give a producer its id and epoch, and fence those before it.

        The request has a transactional id: without one, any broker gives any new producer id.
        Raises NeedsProducerId.
        """
        reply = InitProducerIdResponse(producer_epoch=NO_PRODUCER_EPOCH)
        result = Result(reply)
        before = self._transactions.get(request.transactional_id or "")
        try:
            after = initialized(
                before, request, self._config.transaction_max_timeout_ms, now, new_producer_id
            )
            if after is None:
                # The client asks again until the abort is complete, and then gets an epoch above
                # the one that the abort takes.
                assert before is not None
                self._abort_and_fence(result, before, now, new_producer_id)
                reply.error_code = ErrorCode.CONCURRENT_TRANSACTIONS
                return result
            self._write(result, record_of(after))
        except KafkaError as problem:
            reply.error_code = _code(problem, context.version >= _FENCED_FROM_INIT)
            return Result(reply)
        reply.producer_id = after.producer_id
        reply.producer_epoch = after.producer_epoch
        return result

    # --- its transaction

    def handle_add_partitions(
        self, request: AddPartitionsToTxnTransaction, context: RequestContext, now: int
    ) -> Result[AddPartitionsToTxnResult]:
        """Add partitions to a transaction, or say which are in it (verify_only).

        `queries.transactions_of` has the transactions of a request.
        """
        result = Result(result_for_each(request, lambda _: ErrorCode.NONE))
        try:
            if request.verify_only:
                result.reply = self._verified(request)
            else:
                asked = frozenset(
                    TransactionPartition(topic.name, partition)
                    for topic in request.topics
                    for partition in topic.partitions
                )
                version = EPOCH_BUMP_VERSION if context.version >= _VERSION_2_FROM_ADD else 0
                self._add(result, request, asked, version, now)
        except KafkaError as problem:
            code = _code(problem, context.version >= _FENCED_FROM_ADD)
            result.reply = result_for_each(request, lambda _: code)
        return result

    def handle_add_offsets(
        self,
        request: AddOffsetsToTxnRequest,
        context: RequestContext,
        now: int,
        offsets_partition: int,
    ) -> Result[AddOffsetsToTxnResponse]:
        """Add a group's offsets, which are kept in this partition of `__consumer_offsets`."""
        reply = AddOffsetsToTxnResponse()
        result = Result(reply)
        asked = frozenset({TransactionPartition(OFFSETS_TOPIC, offsets_partition)})
        try:
            # Producers with transaction version 2 do not need this request.
            self._add(result, request, asked, 0, now)
        except KafkaError as problem:
            reply.error_code = _code(problem, context.version >= _FENCED_FROM_ADD)
        return result

    def _add(
        self,
        result: Result[R],
        request: AddPartitionsToTxnTransaction | AddOffsetsToTxnRequest,
        asked: frozenset[TransactionPartition],
        version: int,
        now: int,
    ) -> None:
        before = self._known(request.transactional_id)
        # Before the producer: in version 2 it may already be the one that takes over.
        if before.state in DECIDED:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        _check_producer(before, request)
        if before.state is TransactionState.ONGOING and asked <= before.partitions:
            return
        after = before.joined_by(asked, version, now)
        self._write(result, record_of(after), and_room_for=ROOM_TO_END)
        if before.state is not TransactionState.ONGOING:
            result.timers.append(_timeout_of(after, after.timeout_ms))

    def _verified(self, request: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
        transaction = self._known(request.transactional_id)
        _check_producer(transaction, request)
        if transaction.state in DECIDED:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return result_for_each(
            request,
            lambda partition: (
                ErrorCode.NONE
                if partition in transaction.partitions
                else ErrorCode.TRANSACTION_ABORTABLE
            ),
        )

    def handle_end_txn(
        self,
        request: EndTxnRequest,
        context: RequestContext,
        now: int,
        new_producer_id: int | None = None,
    ) -> Result[EndTxnResponse]:
        """Commit or abort a transaction. Raises NeedsProducerId."""
        reply = EndTxnResponse()
        result = Result(reply)
        version = EPOCH_BUMP_VERSION if context.version >= _VERSION_2_FROM_END else 0
        try:
            after = self._known(request.transactional_id)
            if is_to_be_ended(after, request, version):
                after = self._end(result, after, request.committed, version, now, new_producer_id)
        except KafkaError as problem:
            reply.error_code = _code(problem, context.version >= _FENCED_FROM_END)
            return Result(reply)
        if version >= EPOCH_BUMP_VERSION:
            reply.producer_id = after.producer_id
            reply.producer_epoch = after.producer_epoch
        return result

    def markers_written(
        self, markers: TxnMarkers, outcomes: Mapping[TransactionPartition, int], now: int
    ) -> Result[None]:
        """Take in the error codes with which partitions answered to their markers."""
        result: Result[None] = Result(None)
        unmarked = self._unmarked.get(markers.transactional_id)
        if unmarked is None or unmarked.decision != markers.decision:
            return result
        retry = TransactionTimer(TransactionTimerKind.MARKER_RETRY, markers.transactional_id)
        if unmarked.take(outcomes):
            result.timers.append(SetTimer(retry, unmarked.retry_ms))
        if not unmarked.partitions:
            result.timers.append(CancelTimer(retry))
            self._complete(result, self._transactions[markers.transactional_id], now)
        return result

    def _abort_and_fence(
        self, result: Result[R], before: Transaction, now: int, new_producer_id: int | None
    ) -> None:
        """End an open transaction in place of its producer, which has lost its epoch."""
        self._end(result, before, False, EPOCH_BUMP_VERSION, now, new_producer_id)

    def _end(
        self,
        result: Result[R],
        before: Transaction,
        commit: bool,
        version: int,
        now: int,
        new_producer_id: int | None,
    ) -> Transaction:
        """Decide the outcome; return what the transactional id will be when that is complete."""
        next_producer_id = NO_PRODUCER_ID
        if version >= EPOCH_BUMP_VERSION and before.epochs_are_used_up:
            next_producer_id = needed(new_producer_id)
        decided = before.decided(
            commit=commit,
            client_transaction_version=version,
            next_producer_id=next_producer_id,
            now=now,
        )
        self._write(result, record_of(decided))
        result.timers.append(
            CancelTimer(
                TransactionTimer(TransactionTimerKind.TRANSACTION_TIMEOUT, before.transactional_id)
            )
        )
        self._carry_out(result, decided, self._replayed + len(result.records), now)
        return decided.completed(now)

    def _carry_out(
        self, result: Result[R], transaction: Transaction, decision: int, now: int
    ) -> None:
        """Ask for the markers of a decided transaction, or complete it where there are none."""
        if not transaction.partitions:
            self._complete(result, transaction, now)
            return
        result.effects.append(self._markers(transaction, decision, transaction.partitions))

    def _complete(self, result: Result[R], transaction: Transaction, now: int) -> None:
        """Write that all partitions know the outcome, now or after a while."""
        record = record_of(transaction.completed(now))
        records = [*result.records, record] if result.is_atomic else [record]
        if fits(records, self._largest_batch()):
            result.records.append(record)
        else:
            retry = TransactionTimer(
                TransactionTimerKind.MARKER_RETRY, transaction.transactional_id
            )
            result.timers.append(SetTimer(retry, LAST_RETRY_MS))

    def _write(
        self, result: Result[R], record: CoordinatorRecord, *, and_room_for: int = 0
    ) -> None:
        """Write a record with the others; raises KafkaError where they do not fit."""
        if batch_size([*result.records, record]) + and_room_for > self._largest_batch():
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, "the transaction exceeds max.message.bytes"
            )
        result.records.append(record)

    def _markers(
        self, transaction: Transaction, decision: int, partitions: Iterable[TransactionPartition]
    ) -> TxnMarkers:
        return TxnMarkers(
            transaction.transactional_id,
            decision,
            transaction.producer_id,
            transaction.producer_epoch,
            self._coordinator_epoch,
            transaction.state is TransactionState.PREPARE_COMMIT,
            transaction.client_transaction_version,
            tuple(sorted(partitions)),
        )

    # --- who asks, and who is forgotten

    def handle_describe(self, transactional_id: str) -> Result[DescribedTransaction]:
        """Say everything about one transactional id."""
        try:
            transaction = self._known(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        except KafkaError as problem:
            return Result(
                DescribedTransaction(error_code=problem.code, transactional_id=transactional_id)
            )
        unmarked = self._unmarked.get(transactional_id)
        partitions = transaction.partitions if unmarked is None else unmarked.partitions
        return Result(described(transaction, partitions))

    def handle_list(
        self, request: ListTransactionsRequest, now: int, matches: Matcher | None = None
    ) -> Result[ListTransactionsResponse]:
        """List the transactional ids that pass a request's filters.

        `matches` stands for the request's pattern, where it has one that is not empty: the caller
        compiles it once for all shards, and answers INVALID_REGULAR_EXPRESSION where it cannot.
        """
        return Result(listed(self._transactions.values(), request, now, matches))

    def _forget_unused(self, result: Result[None], now: int) -> None:
        unused_since = now - self._config.transactional_id_expiration_ms
        result.is_atomic = False
        for transaction in self._transactions.values():
            if transaction.state in AT_REST and transaction.last_update_ms <= unused_since:
                tombstone = tombstone_of(transaction.transactional_id)
                if fits([tombstone], self._largest_batch()):
                    result.records.append(tombstone)
                if len(result.records) == TOMBSTONES_AT_ONCE:
                    result.timers.append(SetTimer(_ID_EXPIRATION, 0))
                    return
        result.timers.append(self._next_expiration())

    def _next_expiration(self) -> SetTimer:
        interval = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        return SetTimer(_ID_EXPIRATION, interval)

    def _known(
        self,
        transactional_id: str,
        otherwise: ErrorCode = ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ) -> Transaction:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(otherwise)
        return transaction


_ID_EXPIRATION = TransactionTimer(TransactionTimerKind.ID_EXPIRATION)


def _timeout_of(transaction: Transaction, delay_ms: int) -> SetTimer:
    return SetTimer(
        TransactionTimer(TransactionTimerKind.TRANSACTION_TIMEOUT, transaction.transactional_id),
        delay_ms,
    )


def _check_producer(
    transaction: Transaction, request: AddPartitionsToTxnTransaction | AddOffsetsToTxnRequest
) -> None:
    if request.producer_id != transaction.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.producer_epoch != transaction.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def _code(problem: KafkaError, knows_producer_fenced: bool) -> ErrorCode:
    """The code of a problem, as the client's version has it."""
    if problem.code is ErrorCode.PRODUCER_FENCED and not knows_producer_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return problem.code
