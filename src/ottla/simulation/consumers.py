"""Readers: each follows one partition from its start, and tells the checker what it sees.

Rules kept here:
1. A reader asks for what comes after the last record that it got. Out of range, it begins at the
   earliest offset.
2. Control batches are skipped; with read_committed so are records of aborted transactions.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ottla.records import decode_batch
from ottla.records.control import MarkerType, decode_marker
from ottla.simulation.checker import Checker
from ottla.simulation.client import NoAnswer, SimulatedClient, TopicPartition
from ottla.simulation.producers import MOVED
from ottla.wire.batch import HEADER_SIZE, headers
from ottla.wire.errors import ErrorCode
from ottla.wire.fetch_answer import PartitionAnswer, read_answer
from ottla.wire.fields import DecodeError
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

VERSION: Final = 16
EARLIEST: Final = -2


class Reader:
    """Reads one partition until it is stopped."""

    def __init__(
        self,
        client: SimulatedClient,
        checker: Checker,
        name: str,
        topic: str,
        partition: int,
        *,
        committed: bool,
    ) -> None:
        self._client = client
        self._checker = checker
        self._topic = topic
        self._partition = partition
        self._committed = committed
        self.name = name
        self.ends = False
        self.where: TopicPartition | None = None
        self.position = 0
        self.high_watermark = -1

    async def run(self) -> None:
        """Read, one fetch after another."""
        while not self.ends:
            try:
                if not await self._fetch():
                    await self._client.pause()
            except NoAnswer:
                self._client.forget_leader(self._topic, self._partition)
                await self._client.pause()

    async def _fetch(self) -> bool:
        """Ask once; False where it is better to wait before the next time."""
        client = self._client
        broker = await client.leader(self._topic, self._partition)
        topic_id = client.topics.get(self._topic)
        if topic_id is None:
            raise NoAnswer
        where = TopicPartition(self._topic, topic_id, self._partition)
        if where != self.where:  # another topic of this name
            self.where, self.position = where, 0
        wanted = FetchPartition(
            partition=self._partition,
            fetch_offset=self.position,
            partition_max_bytes=client.chance.choice((100, 4096, 1 << 20)),
        )
        request = FetchRequest(
            max_wait_ms=300,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=int(self._committed),
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
        )
        body, at = await client.ask_for_bytes(broker, request, VERSION)
        try:
            answer = read_answer(body, at, VERSION)
        except DecodeError as problem:
            client.world.fail(f"{self.name}: a malformed Fetch response: {problem}")
            return False
        if answer.error_code or not answer.topics:
            return False
        return await self._take(where, answer.topics[0][1][0])

    async def _take(self, where: TopicPartition, data: PartitionAnswer) -> bool:
        code = ErrorCode(data.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            start = await self._earliest()
            self._checker.out_of_range(where, self.position, start)
            self.position = max(self.position, start)
            return False
        if code in MOVED:
            self._client.forget_leader(self._topic, self._partition)
            return False
        if code != ErrorCode.NONE:
            return False
        self.high_watermark = data.high_watermark
        before = self.position
        for offset, value in self._records(where, data):
            self._checker.read(where, self.name, offset, value)
            if self._committed:
                self._checker.read_committed(where, self.name, value)
        await asyncio.sleep(0)
        return self.position > before

    async def _earliest(self) -> int:
        """Where the log starts; -1 where the broker does not say."""
        broker = await self._client.leader(self._topic, self._partition)
        wanted = ListOffsetsPartition(partition_index=self._partition, timestamp=EARLIEST)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=self._topic, partitions=[wanted])]
        )
        answer = await self._client.ask(broker, request, ListOffsetsResponse, 7)
        return answer.topics[0].partitions[0].offset

    def _records(self, where: TopicPartition, data: PartitionAnswer) -> list[tuple[int, bytes]]:
        """The records of an answer that this reader may see; moves the position past it."""
        found: list[tuple[int, bytes]] = []
        view = data.records
        limit = data.last_stable_offset if self._committed else data.high_watermark
        aborted = sorted(data.aborted, key=lambda one: one[1])
        ended: set[int] = set()
        for at, header in headers(view):
            batch = view[at : at + header.size]
            if len(batch) < header.size or len(batch) < HEADER_SIZE:
                break
            if header.next_offset <= self.position:
                continue
            if header.last_offset >= limit:
                self._checker.world.fail(
                    f"{self.name}: {where} at {header.last_offset} was sent, above {limit}"
                )
            while aborted and aborted[0][1] <= header.last_offset:
                ended.add(aborted.pop(0)[0])
            if header.is_control:
                if decode_marker(batch).type == MarkerType.ABORT:
                    ended.discard(header.producer_id)
            elif not (self._committed and header.is_transactional and header.producer_id in ended):
                found += [
                    (record.offset, record.value or b"")
                    for record in decode_batch(batch)
                    if record.offset >= self.position
                ]
            self._checker.passed(where, self.name, self.position, header.base_offset)
            self.position = header.next_offset
        return found
