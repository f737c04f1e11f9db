"""Share groups on one broker, for tests: a member that asks, and a store of its group's state."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from ottla.api import load_all
from ottla.api.registry import ENDPOINTS, Request
from ottla.broker.broker_server import BrokerServer
from ottla.broker.scheduling.waiting import settled
from ottla.log.storage.file_cache import Slice
from ottla.share.states import NO_START_OFFSET
from ottla.wire import codec
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages import read_share_group_state as reading
from ottla.wire.messages import share_acknowledge as acks
from ottla.wire.messages import share_fetch as fetches
from ottla.wire.messages import write_share_group_state as writing

GROUP = "g"
LATEST = 2


class StoredState:
    """Keeps the state of share partitions in memory, and fails on demand."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.gate = asyncio.Event()
        """Writes are stored while it is open."""
        self.gate.set()
        self.leader_epoch = -1
        self.requests: list[writing.WriteShareGroupStateRequest] = []
        self.start = NO_START_OFFSET
        self.states: dict[tuple[UUID, int, int], tuple[int, int]] = {}

    async def ask(self, request: Message) -> Any:
        """As the share coordinators would answer."""
        if isinstance(request, reading.ReadShareGroupStateRequest):
            return self.read_state(request)
        assert isinstance(request, writing.WriteShareGroupStateRequest)
        await self.gate.wait()
        return self.write_state(request)

    def read_state(
        self, request: reading.ReadShareGroupStateRequest
    ) -> reading.ReadShareGroupStateResponse:
        (topic,) = request.topics
        (part,) = topic.partitions
        batches = [
            reading.StateBatch(
                first_offset=offset, last_offset=offset, delivery_state=state, delivery_count=count
            )
            for (topic_id, index, offset), (count, state) in sorted(self.states.items())
            if (topic_id, index) == (topic.topic_id, part.partition) and offset >= self.start
        ]
        result = reading.PartitionResult(
            partition=part.partition,
            error_code=self.error,
            start_offset=self.start,
            state_batches=batches,
        )
        return reading.ReadShareGroupStateResponse(
            results=[reading.ReadStateResult(topic_id=topic.topic_id, partitions=[result])]
        )

    def write_state(
        self, request: writing.WriteShareGroupStateRequest
    ) -> writing.WriteShareGroupStateResponse:
        if any(part.state_batches for topic in request.topics for part in topic.partitions):
            self.requests.append(request)
        results = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                if self.error == ErrorCode.NONE:
                    self._take(topic.topic_id, part)
                parts.append(
                    writing.PartitionResult(partition=part.partition, error_code=self.error)
                )
            results.append(writing.WriteStateResult(topic_id=topic.topic_id, partitions=parts))
        return writing.WriteShareGroupStateResponse(results=results)

    def _take(self, topic_id: UUID, part: writing.PartitionData) -> None:
        self.start = max(self.start, part.start_offset)
        for batch in part.state_batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                place = topic_id, part.partition, offset
                found = batch.delivery_count, batch.delivery_state
                self.states[place] = max(self.states.get(place, (0, 0)), found)


class Got(NamedTuple):
    """What a fetch got of the only partition it got something of."""

    error: int
    acknowledge_error: int
    acquired: list[tuple[int, int, int]]
    records: bytes


NOTHING = Got(0, 0, [], b"")


def stored_by(node: BrokerServer) -> StoredState:
    """Give a node a store for its share groups."""
    state = StoredState()
    node.sharing._tools.persister._state = state
    return state


async def ask(
    node: BrokerServer,
    message: Message,
    kind: type[Any],
    version: int = LATEST,
    connection: int = 1,
) -> Any:
    """Send a request as a client would, and read the reply."""
    load_all()
    request = Request(node, message.API_KEY, version, 1, "c", "127.0.0.1", "PLAINTEXT", connection)
    body = memoryview(codec.encode(message, version))
    parts: Any = ENDPOINTS[message.API_KEY].handle(request, body, 0)
    parts = await parts if asyncio.iscoroutine(parts) else await settled(parts)
    data = b""
    for part in parts:
        if isinstance(part, Slice):
            data += os.pread(part.file.fd, part.size, part.position)
            part.file.unpin()
        else:
            data += part
    return codec.decode(kind, version, memoryview(data))


class Member:
    """A member of the share group."""

    def __init__(
        self, node: BrokerServer, topic_id: UUID, name: str = "m1", connection: int = 1
    ) -> None:
        self.node = node
        self.topic_id = topic_id
        self.name = name
        self.connection = connection
        self.epoch = 0

    async def fetch_reply(
        self,
        given: Sequence[tuple[int, int, Sequence[int]]] = (),
        *,
        wait_ms: int = 0,
        max_records: int = 100,
        epoch: int | None = None,
        **more: Any,
    ) -> fetches.ShareFetchResponse:
        partition = fetches.FetchPartition(
            acknowledgement_batches=[
                fetches.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=list(types)
                )
                for first, last, types in given
            ]
        )
        sent = self.epoch if epoch is None else epoch
        asked = fetches.ShareFetchRequest(
            **{
                "group_id": GROUP,
                "member_id": self.name,
                "share_session_epoch": sent,
                "max_wait_ms": wait_ms,
                "min_bytes": 1,
                "max_records": max_records,
                "batch_size": max_records,
                "topics": [fetches.FetchTopic(topic_id=self.topic_id, partitions=[partition])],
                **more,
            }
        )
        reply: fetches.ShareFetchResponse = await ask(
            self.node, asked, fetches.ShareFetchResponse, connection=self.connection
        )
        if reply.error_code == ErrorCode.NONE:
            self.epoch = sent + 1
        return reply

    async def fetch(self, *given: tuple[int, int, Sequence[int]], **more: Any) -> Got:
        """Acknowledge and fetch."""
        reply = await self.fetch_reply(given, **more)
        assert reply.error_code == ErrorCode.NONE
        if not reply.responses:
            return NOTHING
        ((part,),) = [topic.partitions for topic in reply.responses]
        acquired = [
            (each.first_offset, each.last_offset, each.delivery_count)
            for each in part.acquired_records
        ]
        return Got(
            part.error_code, part.acknowledge_error_code, acquired, bytes(part.records or b"")
        )

    async def acknowledge(
        self, *given: tuple[int, int, Sequence[int]], epoch: int | None = None, renew: bool = False
    ) -> tuple[int, int]:
        """Acknowledge; the error at the top and that of the partition."""
        sent = self.epoch if epoch is None else epoch
        partition = acks.AcknowledgePartition(
            acknowledgement_batches=[
                acks.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=list(types)
                )
                for first, last, types in given
            ]
        )
        asked = acks.ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=sent,
            is_renew_ack=renew,
            topics=[acks.AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])],
        )
        reply: acks.ShareAcknowledgeResponse = await ask(
            self.node, asked, acks.ShareAcknowledgeResponse, connection=self.connection
        )
        if reply.error_code:
            return reply.error_code, 0
        self.epoch = sent + 1
        ((part,),) = [topic.partitions for topic in reply.responses]
        return 0, part.error_code
