"""Transactional producers: a transaction writes to several partitions, then commits or aborts.

Rules kept here:
1. A transaction that is answered as committed is visible as a whole, an aborted one not at all. One
   whose end got no final answer is either.
2. A producer that was fenced, or does not know how its transaction stands, begins again with
   InitProducerId, which aborts what is open.
3. Epochs change with every transaction (version 2 of transactions): an EndTxn that is sent again
   has the old one, and is answered as the first would have been.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from ottla.records import Record, encode_batch
from ottla.simulation.checker import Checker
from ottla.simulation.client import NoAnswer, SimulatedClient, TopicPartition
from ottla.simulation.producers import EXPECTED, MOVED
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

TRANSACTION: Final = 1
"""The kind of coordinator."""
TIMEOUT_MS: Final = 8000
ATTEMPTS_SECONDS: Final = 6.0
AGAIN: Final = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NETWORK_EXCEPTION,
}
LOST: Final = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.TRANSACTION_ABORTABLE,
}
"""The transaction was ended by others, or cannot be continued."""


class _Lost(Exception):  # noqa: N818 it names what happened
    """Begin again with InitProducerId."""


class Transactor:
    """Writes transactions under one transactional id until it is stopped."""

    def __init__(
        self,
        client: SimulatedClient,
        checker: Checker,
        name: str,
        partitions: list[tuple[str, int]],
    ) -> None:
        self._client = client
        self._checker = checker
        self._partitions = partitions
        self.name = name
        self.ends = False
        self.done = False
        self._numbers = 0
        self._id = -1
        self._epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    async def run(self) -> None:
        """One transaction after another."""
        chance = self._client.chance
        while not self.ends:
            await asyncio.sleep(chance.choice((0.0, 0.05, 0.5)))
            try:
                if self._id < 0:
                    await self._begin()
                await self._transact()
            except _Lost:
                self._id = -1
            except NoAnswer:
                self._id = -1
                await self._client.pause()
        self.done = True

    async def _begin(self) -> None:
        """Get an epoch of our own; what was open is aborted by it."""
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS
        )
        broker = await self._client.coordinator(self.name, TRANSACTION)
        answer = await self._client.ask(broker, request, InitProducerIdResponse, 5)
        if answer.error_code:
            self._expect(ErrorCode(answer.error_code), AGAIN | LOST, "InitProducerId")
            await self._client.pause()
            raise _Lost
        self._take(answer.producer_id, answer.producer_epoch)
        self._checker.unfinished_ended(self.name)

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._id, self._epoch):
            self._id, self._epoch = producer_id, epoch
            self._sequences.clear()

    def _expect(self, code: ErrorCode, among: set[ErrorCode], what: str) -> None:
        if code not in among:
            self._client.world.fail(f"{self.name}: {what} was refused with {code.name}")

    async def _transact(self) -> None:
        chance = self._client.chance
        number = self._numbers
        self._numbers += 1
        transaction = f"{self.name}-{number}"
        count = chance.randint(1, min(3, len(self._partitions)))
        for key in chance.sample(self._partitions, count):
            await self._write(transaction, key)
        await asyncio.sleep(chance.choice((0.0, 0.0, 0.1)))
        await self._end(transaction, committed=chance.random() < 0.7)

    async def _write(self, transaction: str, key: tuple[str, int]) -> None:
        topic, index = key
        value = f"{self.name}/{topic}-{index}:{transaction.rpartition('-')[2]}".encode()
        sequence = self._sequences.get(key, 0)
        batch = encode_batch(
            [Record(0, time.time_ns() // 1_000_000, b"k", value)],
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional=True,
        )
        client = self._client
        deadline = client.world.loop.time() + ATTEMPTS_SECONDS
        while client.world.loop.time() < deadline:
            try:
                if await self._send(transaction, key, value, batch):
                    self._sequences[key] = sequence + 1
                    return
            except NoAnswer:
                client.forget_leader(topic, index)
            await client.pause()
        raise _Lost

    async def _send(
        self, transaction: str, key: tuple[str, int], value: bytes, batch: bytes
    ) -> bool:
        client = self._client
        topic, index = key
        broker = await client.leader(topic, index)
        topic_id = client.topics.get(topic)
        if topic_id is None:
            raise NoAnswer
        where = TopicPartition(topic, topic_id, index)
        self._checker.in_transaction(transaction, where, value)
        data = PartitionProduceData(index=index, records=batch)
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=2000,
            topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[data])],
        )
        answer = await client.ask(broker, request, ProduceResponse, 13)
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            return True
        if code in LOST:
            raise _Lost
        if code in MOVED:
            client.forget_leader(topic, index)
        else:
            self._expect(code, EXPECTED | AGAIN, "a transactional produce")
        return False

    async def _end(self, transaction: str, *, committed: bool) -> None:
        client = self._client
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=committed,
        )
        self._checker.ending(transaction, committed=committed)
        deadline = client.world.loop.time() + ATTEMPTS_SECONDS
        while client.world.loop.time() < deadline:
            try:
                broker = await client.coordinator(self.name, TRANSACTION)
                answer = await client.ask(broker, request, EndTxnResponse, 5)
            except NoAnswer:
                await client.pause()
                continue
            code = ErrorCode(answer.error_code)
            if code == ErrorCode.NONE:
                self._checker.ended(transaction, committed=committed)
                self._take(answer.producer_id, answer.producer_epoch)
                return
            if code in LOST:
                raise _Lost
            self._expect(code, AGAIN, "EndTxn")
            await client.pause()
        raise _Lost
