"""Transactions that may outlive who began them: a process begins one, another can end it.

A transaction is known by transactional id, producer id and epoch. It stays open when its
connection closes, until someone who knows these three ends it, its timeout passes, or another
producer is given the transactional id.

Rules kept here:
1. Brokers with `transaction.version` 2 (KIP-890) take partitions into a transaction as they are
   produced to, and raise the epoch at each end (EndTxn 5). With older ones partitions are added
   first, and EndTxn is at most 4. Which of both a transaction was begun with must not change.
2. An EndTxn is asked again until it is answered: a coordinator knows the repeated question. NONE
   says that the transaction ended as was asked, now or earlier. Whatever else comes back is the
   caller's to judge.
3. CONCURRENT_TRANSACTIONS means that markers of the last transaction are still being written, a
   matter of milliseconds: pauses begin short.
"""

from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import NamedTuple, TypeVar

from ottla.client.cluster import Client, TopicPartition
from ottla.client.connection import Reply
from ottla.client.coordinators import CoordinatorType, find_coordinators
from ottla.client.errors import check
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

T = TypeVar("T")

FIRST_PAUSE = 0.002
IMPLICIT_PARTITIONS = 2
"""The `transaction.version` from which a Produce adds its partitions by itself."""
LAST_END_TXN = {1: 4, 2: 5}
"""The newest EndTxn of each transaction version."""
LAST_CLIENTS_ADD_PARTITIONS = 3
"""Later versions of AddPartitionsToTxn are for brokers."""
ONGOING = "Ongoing"


class TransactionKey(NamedTuple):
    """Who may write to a transaction, and end it."""

    transactional_id: str
    producer_id: int
    epoch: int


class Transactions:
    """Begins and ends transactions through a client, and remembers who coordinates them."""

    def __init__(self, client: Client, version: int | None = None) -> None:
        """`version` is the transaction version to use; by default the newest of the cluster."""
        self._client = client
        self._version = version
        self._coordinators: dict[str, int] = {}

    @property
    def version(self) -> int:
        """2 where the cluster has transactions of KIP-890, else 1."""
        if self._version is None:
            self._version = self._retry(self._ask_version)
        return self._version

    @property
    def end_txn_version(self) -> int:
        """The EndTxn that ends what is begun now."""
        return LAST_END_TXN[self.version]

    def begin(
        self, transactional_id: str, timeout_ms: int, *, of: TransactionKey | None = None
    ) -> TransactionKey:
        """Take a transactional id: an earlier producer is fenced, and what it had open is aborted.

        With `of`, only if nobody else has taken it since `of` was given; else PRODUCER_FENCED.
        """
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        if of is not None:
            request.producer_id, request.producer_epoch = of.producer_id, of.epoch

        def attempt() -> TransactionKey:
            node = self._coordinator(transactional_id)
            reply = self._client.call(request, InitProducerIdResponse, node)
            self._check(reply.error_code, transactional_id)
            return TransactionKey(transactional_id, reply.producer_id, reply.producer_epoch)

        return self._retry(attempt)

    def add_partitions(self, key: TransactionKey, partitions: Iterable[TopicPartition]) -> None:
        """Make partitions part of a transaction of version 1, before they are produced to."""
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for name, index in partitions:
            topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=key.transactional_id,
            v3_and_below_producer_id=key.producer_id,
            v3_and_below_producer_epoch=key.epoch,
            v3_and_below_topics=list(topics.values()),
        )

        def attempt() -> None:
            reply = self._client.call(
                request,
                AddPartitionsToTxnResponse,
                self._coordinator(key.transactional_id),
                newest=LAST_CLIENTS_ADD_PARTITIONS,
            )
            for topic in reply.results_by_topic_v3_and_below:
                for result in topic.results_by_partition:
                    self._check(result.partition_error_code, key.transactional_id)

        self._retry(attempt)

    def end(
        self, keys: Sequence[TransactionKey], *, commit: bool, end_txn_version: int
    ) -> dict[TransactionKey, "EndTxnResult"]:
        """Ask for the end of transactions, all at once; the coordinators' final answers."""
        endings: dict[TransactionKey, EndTxnResult] = {}

        def attempt() -> None:
            left = [key for key in keys if key not in endings]
            self._find([key.transactional_id for key in left])
            sent = [(key, self._send_end(key, commit, end_txn_version)) for key in left]
            problem: KafkaError | None = None
            for key, reply in sent:
                try:
                    if isinstance(reply, KafkaError):
                        raise reply
                    answer = reply.result()
                    self._check_retriable(answer.error_code, key.transactional_id)
                except KafkaError as failure:
                    problem = failure
                    self._coordinators.pop(key.transactional_id, None)
                    continue
                endings[key] = _ending(key, answer)
            if problem is not None:
                raise problem

        if keys:
            self._retry(attempt)
        return endings

    def ongoing(self, pattern: str, matches: Callable[[str], bool]) -> list[str]:
        """The ids with an open transaction that fit a pattern as a whole.

        Brokers before Kafka 4.1 know no patterns: `matches` says the same of an id.
        """
        request = ListTransactionsRequest(state_filters=[ONGOING], transactional_id_pattern=pattern)

        def attempt() -> list[str]:
            found = []
            for broker in self._client.metadata([]).brokers:
                reply = self._client.call(request, ListTransactionsResponse, broker.node_id)
                check(reply.error_code, None, f"transactions of broker {broker.node_id}")
                found += [item.transactional_id for item in reply.transaction_states]
            return [name for name in found if matches(name)]

        return self._retry(attempt)

    def _ask_version(self) -> int:
        request = ApiVersionsRequest(
            client_software_name="ottla-client", client_software_version="1"
        )
        reply = self._client.call(request, ApiVersionsResponse)
        check(reply.error_code)
        levels = {item.name: item.max_version_level for item in reply.finalized_features}
        return IMPLICIT_PARTITIONS if levels.get("transaction.version", 0) >= 2 else 1

    def _send_end(
        self, key: TransactionKey, commit: bool, version: int
    ) -> Reply[EndTxnResponse] | KafkaError:
        request = EndTxnRequest(
            transactional_id=key.transactional_id,
            producer_id=key.producer_id,
            producer_epoch=key.epoch,
            committed=commit,
        )
        try:
            connection = self._client.connection(self._coordinators[key.transactional_id])
            return connection.submit(request, EndTxnResponse, newest=version)
        except KafkaError as problem:
            return problem

    def _coordinator(self, transactional_id: str) -> int:
        self._find([transactional_id])
        return self._coordinators[transactional_id]

    def _find(self, ids: Sequence[str]) -> None:
        unknown = [name for name in ids if name not in self._coordinators]
        if unknown:
            self._coordinators |= find_coordinators(
                self._client, CoordinatorType.TRANSACTION, unknown
            )

    def _check(self, error_code: int, transactional_id: str) -> None:
        check(error_code, None, f"transactional id {transactional_id}")

    def _check_retriable(self, error_code: int, transactional_id: str) -> None:
        try:
            self._check(error_code, transactional_id)
        except KafkaError as problem:
            if problem.retriable:
                raise

    def _retry(self, attempt: Callable[[], T]) -> T:
        deadline = monotonic() + self._client.settings.deadline
        pause = FIRST_PAUSE
        while True:
            try:
                return attempt()
            except KafkaError as problem:
                if not problem.retriable or monotonic() + pause > deadline:
                    raise
                if problem.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    # A coordinator may have moved.
                    self._coordinators.clear()
            pause = self._client.pause(pause)


class EndTxnResult(NamedTuple):
    """What a coordinator says to an EndTxn, and what the next transaction is known by.

    Before EndTxn 5 the next one has the same key.
    """

    error_code: ErrorCode
    next_key: TransactionKey


def _ending(key: TransactionKey, answer: EndTxnResponse) -> EndTxnResult:
    next_key = key
    if answer.producer_id >= 0:
        next_key = TransactionKey(key.transactional_id, answer.producer_id, answer.producer_epoch)
    return EndTxnResult(_code(answer.error_code), next_key)


def _code(error_code: int) -> ErrorCode:
    try:
        return ErrorCode(error_code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
