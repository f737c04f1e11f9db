"""A runtime for one transaction shard with a clock, a log and partitions that only tests have.

It keeps the contract of `ottla.coordinator.shard` and `transactions.effects`: records are appended
and replayed at once, timers are kept by key, markers wait until a test has them written. Records
go through bytes in a restart, as they do on disk.
"""

from collections.abc import Callable, Hashable
from typing import TypeVar

from ottla.coordinator.batch_sizes import UNLIMITED, batch_size
from ottla.coordinator.shard import CoordinatorRecord, Deferred, RequestContext, Result, SetTimer
from ottla.coordinator.transactions.effects import NeedsProducerId, TxnMarkers
from ottla.coordinator.transactions.queries import response_of, transactions_of
from ottla.coordinator.transactions.shard import TransactionConfig, TransactionShard
from ottla.coordinator.transactions.state import TransactionPartition
from ottla.coordinator.transactions.timers import TransactionTimer
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsResponse
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

R = TypeVar("R")

FIRST_PRODUCER_ID = 1000
OFFSETS_PARTITION = 7


class Driver:
    """One shard, driven by a test."""

    def __init__(self, config: TransactionConfig | None = None, limit: int = UNLIMITED) -> None:
        self.config = config or TransactionConfig()
        self.limit = limit
        """The largest batch that the log takes; what does not fit is a mistake of the shard."""
        self.now = 1_000_000
        """The wall clock; `set_clock` sets it."""
        self.elapsed = 0
        """What timers go by."""
        self.log: list[CoordinatorRecord] = []
        self.timers: dict[Hashable, int] = {}
        self.markers: list[TxnMarkers] = []
        """Asked for, and not yet reported."""
        self.coordinator_epoch = 0
        self.producer_ids_given = 0
        self.shard = self._new_shard()
        self._take(self.shard.loaded(self.now))

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(self.config, self.coordinator_epoch, lambda: self.limit)

    def init(self, request: InitProducerIdRequest, version: int = 5) -> InitProducerIdResponse:
        context = RequestContext(version)
        return self._with_producer_id(
            lambda new: self.shard.handle_init_producer_id(request, context, self.now, new)
        )

    def add(
        self, request: AddPartitionsToTxnRequest, version: int = 5
    ) -> AddPartitionsToTxnResponse:
        results: list[AddPartitionsToTxnResult] = [
            self._take(
                self.shard.handle_add_partitions(transaction, RequestContext(version), self.now)
            )
            for transaction in transactions_of(request, version)
        ]
        return response_of(results, version)

    def offsets(self, request: AddOffsetsToTxnRequest, version: int = 4) -> AddOffsetsToTxnResponse:
        context = RequestContext(version)
        return self._take(
            self.shard.handle_add_offsets(request, context, self.now, OFFSETS_PARTITION)
        )

    def end(self, request: EndTxnRequest, version: int = 5) -> EndTxnResponse:
        context = RequestContext(version)
        return self._with_producer_id(
            lambda new: self.shard.handle_end_txn(request, context, self.now, new)
        )

    def describe(self, transactional_id: str) -> DescribeTransactionsResponse:
        state = self._take(self.shard.handle_describe(transactional_id))
        return DescribeTransactionsResponse(transaction_states=[state])

    def list_transactions(
        self, request: ListTransactionsRequest, matches: Callable[[str], bool] | None = None
    ) -> ListTransactionsResponse:
        return self._take(self.shard.handle_list(request, self.now, matches))

    def report(
        self, markers: TxnMarkers, outcomes: dict[TransactionPartition, ErrorCode] | None = None
    ) -> None:
        """Tell the shard what partitions said, by default that all is well."""
        if outcomes is None:
            outcomes = dict.fromkeys(markers.partitions, ErrorCode.NONE)
        self._take(self.shard.markers_written(markers, outcomes, self.now))

    def write_markers(self) -> None:
        """Have every marker written that was asked for."""
        while self.markers:
            self.report(self.markers.pop(0))

    def advance_to(self, now: int) -> None:
        """Let time pass, and all timers fire that are due on the way."""
        end = self.elapsed + now - self.now
        while due := min(
            (timer for timer in self.timers.items() if timer[1] <= end),
            key=lambda timer: timer[1],
            default=None,
        ):
            key, at = due
            assert isinstance(key, TransactionTimer)
            del self.timers[key]
            self._pass_to(max(self.elapsed, at))
            self._expire(key)
        self._pass_to(end)

    def _pass_to(self, elapsed: int) -> None:
        self.now += elapsed - self.elapsed
        self.elapsed = elapsed

    def set_clock(self, by_ms: int) -> None:
        """An operator, or NTP, sets the wall clock; no time passes."""
        self.now = max(1, self.now + by_ms)

    def restart(self, keep: int | None = None) -> None:
        """Load the shard again, from the first records of its log (by default all)."""
        del self.log[keep if keep is not None else len(self.log) :]
        self.markers.clear()
        self.timers.clear()
        self.coordinator_epoch += 1
        self.shard = self._new_shard()
        for record in self.log:
            self.shard.replay(CoordinatorRecord(record.key, record.value))
        self._take(self.shard.loaded(self.now))

    def new_producer_id(self) -> int:
        """An id that nobody has."""
        self.producer_ids_given += 1
        return FIRST_PRODUCER_ID + self.producer_ids_given - 1

    def _append(self, record: CoordinatorRecord) -> None:
        self.log.append(record)
        self.shard.replay(record)

    def _ask_for(self, markers: list[TxnMarkers]) -> None:
        self.markers += markers

    def _expire(self, key: TransactionTimer) -> None:
        self._with_producer_id(lambda new: self.shard.expire(key, self.now, new))

    def _with_producer_id(self, call: Callable[[int | None], Result[R]]) -> R:
        try:
            result = call(None)
        except NeedsProducerId:
            result = call(self.new_producer_id())
        return self._take(result)

    def _take(self, result: Result[R]) -> R:
        if result.is_atomic:
            assert not result.records or batch_size(result.records) <= self.limit
        else:
            assert all(batch_size([record]) <= self.limit for record in result.records)
        for record in result.records:
            self._append(record)
        for timer in result.timers:
            self.timers.pop(timer.key, None)
            if isinstance(timer, SetTimer):
                self.timers[timer.key] = self.elapsed + timer.delay_ms
        self._ask_for(_markers_of(result))
        assert not isinstance(result.reply, Deferred), "no transactional request is parked"
        return result.reply


class Producer:
    """A producer with a transactional id, as a client library has it. Methods give error codes."""

    def __init__(self, driver: Driver, transactional_id: str = "t", version: int = 2) -> None:
        self.driver = driver
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1
        self._add_version, self._end_version = (5, 5) if version == 2 else (3, 4)

    def init(self, timeout_ms: int = 60_000, *, stated: bool = False) -> ErrorCode:
        """Get a producer id and an epoch; `stated` says those that it has."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        if stated:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        reply = self.driver.init(request)
        if not reply.error_code:
            self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
        return ErrorCode(reply.error_code)

    def add(self, *partitions: int, verify: bool = False, topic: str = "topic") -> ErrorCode:
        """Add partitions to the transaction; all get the same code, or the test is wrong."""
        asked = AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            verify_only=verify,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        request = AddPartitionsToTxnRequest(transactions=[asked])
        if self._add_version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=asked.topics,
            )
        reply = self.driver.add(request, self._add_version)
        results = reply.results_by_topic_v3_and_below
        if self._add_version >= 4:
            results = reply.results_by_transaction[0].topic_results
        (code,) = {part.partition_error_code for part in results[0].results_by_partition}
        return ErrorCode(code)

    def add_offsets(self) -> ErrorCode:
        """Add the offsets of a group."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id="group",
        )
        return ErrorCode(self.driver.offsets(request).error_code)

    def end(self, *, commit: bool, learn: bool = True) -> ErrorCode:
        """End the transaction; without `learn`, the answer gets lost on its way."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        reply = self.driver.end(request, self._end_version)
        if learn and reply.producer_id != -1:
            self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
        return ErrorCode(reply.error_code)


def a_producer(driver: Driver, transactional_id: str = "t", version: int = 2) -> Producer:
    """A producer that has its epoch."""
    producer = Producer(driver, transactional_id, version)
    assert producer.init() is ErrorCode.NONE
    return producer


def state_of(driver: Driver, transactional_id: str = "t") -> str:
    """Kafka's name of the state that a transactional id is in."""
    return driver.describe(transactional_id).transaction_states[0].transaction_state


def _markers_of(result: Result[R]) -> list[TxnMarkers]:
    found = []
    for effect in result.effects:
        assert isinstance(effect, TxnMarkers), "a transaction coordinator asks for nothing else"
        found.append(effect)
    return found
