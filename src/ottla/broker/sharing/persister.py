"""The stored state of share partitions, as the leaders of partitions read and write it.

Rules kept here:
1. Which broker keeps a state, and that it is asked again where it moves or loads, is known to
   `ShareState`: the share coordinators of the cluster.
2. Writes of one turn of the loop for one group share a request. Of one share partition there is one
   write under way: those that come meanwhile go together after it. So the store gets them in their
   order, and the busier a share partition is, the more acknowledgements one append has.
3. What is read is read after all that was written before.
4. A leader gets Kafka's error of an outcome: FENCED_* means that this broker no longer leads.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

import structlog

from ottla.broker.scheduling.background import Background
from ottla.later import Later
from ottla.share.sessions import TopicIdPartition
from ottla.share.states import StateWrite
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import Message
from ottla.wire.messages import read_share_group_state as reading
from ottla.wire.messages import write_share_group_state as writing

log = structlog.get_logger()

AS_TOLD: Final = {
    ErrorCode.NONE: ErrorCode.NONE,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""What becomes of a coordinator's error; of another one: UNKNOWN_SERVER_ERROR."""
NOT_STORED: Final = {**AS_TOLD, ErrorCode.INVALID_REQUEST: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
"""The same of a write: INVALID_REQUEST says that the state was deleted, with the group."""


class ShareCoordinators(Protocol):
    """The share coordinators of the cluster."""

    async def ask(self, request: Message) -> Any:
        """Answer ReadShareGroupState or WriteShareGroupState, wherever the state is kept."""


class ShareKey(NamedTuple):
    """A share partition."""

    group: str
    where: TopicIdPartition


class _Epochs(NamedTuple):
    """What a write is based on."""

    state: int
    leader: int


class _Write(NamedTuple):
    epochs: _Epochs
    write: StateWrite
    outcome: Later[ErrorCode]


class Persister:
    """Reads and writes the state of share partitions."""

    def __init__(self, state: ShareCoordinators, background: Background) -> None:
        self._state = state
        self._background = background
        self._waiting: dict[ShareKey, list[_Write]] = {}
        self._under_way: set[ShareKey] = set()
        self._readers: dict[ShareKey, asyncio.Event] = {}
        """Who wants to read a share partition that is being written."""
        self._is_due = False

    async def read(self, key: ShareKey, leader_epoch: int) -> reading.PartitionResult:
        """What is stored of a share partition; raises KafkaError."""
        while key in self._under_way or key in self._waiting:
            await self._readers.setdefault(key, asyncio.Event()).wait()
        part = reading.PartitionData(partition=key.where.partition, leader_epoch=leader_epoch)
        topic = reading.ReadStateData(topic_id=key.where.topic_id, partitions=[part])
        answer: reading.ReadShareGroupStateResponse = await self._state.ask(
            reading.ReadShareGroupStateRequest(group_id=key.group, topics=[topic])
        )
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        for results in answer.results:
            for found in results.partitions:
                if TopicIdPartition(results.topic_id, found.partition) == key.where:
                    code = ErrorCode(found.error_code)
                    if code == ErrorCode.NONE:
                        return found
        raise KafkaError(AS_TOLD.get(code, ErrorCode.UNKNOWN_SERVER_ERROR))

    def write(
        self, key: ShareKey, state_epoch: int, leader_epoch: int, write: StateWrite
    ) -> Later[ErrorCode]:
        """Store a change; its outcome is an error code."""
        outcome: Later[ErrorCode] = Later()
        each = _Write(_Epochs(state_epoch, leader_epoch), write, outcome)
        self._waiting.setdefault(key, []).append(each)
        if key not in self._under_way:
            self._send_soon()
        return outcome

    def _send_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        """Send what waits, except for share partitions that are being written."""
        self._is_due = False
        requests: dict[str, dict[ShareKey, list[_Write]]] = {}
        for key in [key for key in self._waiting if key not in self._under_way]:
            waiting = self._waiting.pop(key)
            alike = [each for each in waiting if each.epochs == waiting[0].epochs]
            requests.setdefault(key.group, {})[key] = alike
            if len(alike) < len(waiting):
                self._waiting[key] = [each for each in waiting if each.epochs != waiting[0].epochs]
        for group, writes in requests.items():
            self._under_way.update(writes)
            self._background.run(self._store(group, writes))

    async def _store(self, group: str, writes: dict[ShareKey, list[_Write]]) -> None:
        codes: dict[TopicIdPartition, ErrorCode] = {}
        try:
            answer: writing.WriteShareGroupStateResponse = await self._state.ask(
                _request(group, writes)
            )
            codes = {
                TopicIdPartition(topic.topic_id, part.partition): ErrorCode(part.error_code)
                for topic in answer.results
                for part in topic.partitions
            }
        except Exception:
            log.exception("failed to write share group state", group=group)
        finally:  # a write without an outcome would hold its records for ever
            self._ended(writes, codes)

    def _ended(
        self, writes: dict[ShareKey, list[_Write]], codes: dict[TopicIdPartition, ErrorCode]
    ) -> None:
        self._under_way.difference_update(writes)
        for key, sent in writes.items():
            code = codes.get(key.where, ErrorCode.UNKNOWN_SERVER_ERROR)
            for each in sent:
                each.outcome.complete(NOT_STORED.get(code, ErrorCode.UNKNOWN_SERVER_ERROR))
            if key in self._waiting:
                self._send_soon()
            elif (reader := self._readers.pop(key, None)) is not None:
                reader.set()


def _request(
    group: str, writes: dict[ShareKey, list[_Write]]
) -> writing.WriteShareGroupStateRequest:
    topics: dict[UUID, writing.WriteStateData] = {}
    for key, sent in writes.items():
        topic = topics.setdefault(
            key.where.topic_id, writing.WriteStateData(topic_id=key.where.topic_id)
        )
        epochs, last, _ = sent[-1]
        topic.partitions.append(
            writing.PartitionData(
                partition=key.where.partition,
                state_epoch=epochs.state,
                leader_epoch=epochs.leader,
                start_offset=last.start_offset,
                delivery_complete_count=last.delivery_complete_count,
                state_batches=[
                    writing.StateBatch(
                        first_offset=batch.first,
                        last_offset=batch.last,
                        delivery_state=batch.state,
                        delivery_count=batch.delivery_count,
                    )
                    for each in sent
                    for batch in each.write.batches
                ],
            )
        )
    return writing.WriteShareGroupStateRequest(group_id=group, topics=list(topics.values()))
