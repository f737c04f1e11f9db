"""Producers: each writes numbered values to one partition, and knows which were acknowledged.

Rules kept here:
1. A value is written once, whatever is sent again: the producer is idempotent, and a batch keeps
   its sequence number until it is acknowledged or refused for good.
2. After a refusal that says that the producer's id is of no use any more it gets another one. What
   was under way then may have been written or not, and is not sent again.
3. A batch that was not acknowledged within its time is given up, as a client's delivery timeout
   does.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from ottla.records import Record, encode_batch
from ottla.simulation.checker import Checker
from ottla.simulation.client import NoAnswer, SimulatedClient, TopicPartition
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

FATAL: Final = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
}
MOVED: Final = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
}
EXPECTED: Final = {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.INVALID_TIMESTAMP,  # where a clock was set
}
DELIVERY_SECONDS: Final = 20.0


class Producer:
    """Writes to one partition until it is stopped."""

    def __init__(
        self, client: SimulatedClient, checker: Checker, name: str, topic: str, partition: int
    ) -> None:
        self._client = client
        self._checker = checker
        self._topic = topic
        self._partition = partition
        self.name = name
        self.ends = False
        self.done = False
        self.written = 0
        self._numbers = 0
        self._id = -1
        self._epoch = -1
        self._sequence = 0

    async def run(self) -> None:
        """Write, one batch after another."""
        chance = self._client.chance
        while not self.ends:
            await asyncio.sleep(chance.choice((0.0, 0.01, 0.05, 0.3)))
            if self._id < 0 and not await self._begin():
                await self._client.pause()
                continue
            await self._write(chance.choice((1, 1, 1, 2, 5, 30)))
        self.done = True

    async def _begin(self) -> bool:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000)
        try:
            answer = await self._client.ask(
                self._client.any_broker(), request, InitProducerIdResponse, 5
            )
        except NoAnswer:
            return False
        if answer.error_code:
            return False
        self._id, self._epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0
        return True

    async def _write(self, count: int) -> None:
        """Bring one batch to its end."""
        values = []
        for _ in range(count):
            values.append(f"{self.name}:{self._numbers}".encode())
            self._numbers += 1
        now = time.time_ns() // 1_000_000
        batch = encode_batch(
            [
                Record(offset, now, b"k%d" % (offset % 3), value)
                for offset, value in enumerate(values)
            ],
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
        )
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DELIVERY_SECONDS
        while loop.time() < deadline:
            try:
                if await self._send(batch, values):
                    return
            except NoAnswer:
                self._client.forget_leader(self._topic, self._partition)
            if self._id < 0:
                return
            await self._client.pause()
        self._id = -1  # the sequence has a hole now

    async def _send(self, batch: bytes, values: list[bytes]) -> bool:
        client = self._client
        broker = await client.leader(self._topic, self._partition)
        topic_id = client.topics.get(self._topic)
        if topic_id is None:
            raise NoAnswer
        where = TopicPartition(self._topic, topic_id, self._partition)
        self._checker.sent(where, values)
        data = PartitionProduceData(index=self._partition, records=batch)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=2000,
            topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[data])],
        )
        answer = await client.ask(broker, request, ProduceResponse, 13)
        result = answer.responses[0].partition_responses[0]
        code = ErrorCode(result.error_code)
        if code == ErrorCode.NONE or code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            if code == ErrorCode.NONE:
                self._checker.acknowledged(where, result.base_offset, values)
            self._sequence += len(values)
            self.written += len(values)
            return True
        if code in FATAL:
            self._id = -1
        elif code in MOVED:
            client.forget_leader(self._topic, self._partition)
        elif code not in EXPECTED:
            client.world.fail(f"{self.name}: produce was refused with {code.name}")
        return False
