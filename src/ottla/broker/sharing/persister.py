"""The stored state of share partitions, as the leaders of partitions read and write it.

Rules kept here:
1. Which broker keeps a state, and that it is asked again where it moves or loads, is known to
   `ShareState`: the share coordinators of the cluster.
2. Writes of one turn of the loop for one group share a request.
3. A leader gets Kafka's error of an outcome: FENCED_* means that this broker leads no more.
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


class ShareState(Protocol):
    """The share coordinators of the cluster."""

    async def ask(self, request: Message) -> Any:
        """Answer ReadShareGroupState or WriteShareGroupState, wherever the state is kept."""


class ShareKey(NamedTuple):
    """A share partition."""

    group: str
    where: TopicIdPartition


class _Write(NamedTuple):
    key: ShareKey
    state_epoch: int
    leader_epoch: int
    write: StateWrite
    outcome: Later[ErrorCode]


class Persister:
    """Reads and writes the state of share partitions."""

    def __init__(self, state: ShareState, background: Background) -> None:
        self._state = state
        self._background = background
        self._waiting: list[_Write] = []

    async def read(self, key: ShareKey, leader_epoch: int) -> reading.PartitionResult:
        """What is stored of a share partition; raises KafkaError."""
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
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._send)
        self._waiting.append(_Write(key, state_epoch, leader_epoch, write, outcome))
        return outcome

    def _send(self) -> None:
        """Send what was written in this turn; a partition is once in a request."""
        waiting, self._waiting = self._waiting, []
        requests: dict[tuple[str, int], list[_Write]] = {}
        seen: dict[ShareKey, int] = {}
        for each in waiting:
            turn = seen[each.key] = seen.get(each.key, -1) + 1
            requests.setdefault((each.key.group, turn), []).append(each)
        for (group, _), writes in requests.items():
            self._background.run(self._store(group, writes))

    async def _store(self, group: str, writes: list[_Write]) -> None:
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
            for each in writes:
                code = codes.get(each.key.where, ErrorCode.UNKNOWN_SERVER_ERROR)
                each.outcome.complete(AS_TOLD.get(code, ErrorCode.UNKNOWN_SERVER_ERROR))


def _request(group: str, writes: list[_Write]) -> writing.WriteShareGroupStateRequest:
    topics: dict[UUID, writing.WriteStateData] = {}
    for key, state_epoch, leader_epoch, write, _ in writes:
        topic = topics.setdefault(
            key.where.topic_id, writing.WriteStateData(topic_id=key.where.topic_id)
        )
        topic.partitions.append(
            writing.PartitionData(
                partition=key.where.partition,
                state_epoch=state_epoch,
                leader_epoch=leader_epoch,
                start_offset=write.start_offset,
                delivery_complete_count=write.delivery_complete_count,
                state_batches=[
                    writing.StateBatch(
                        first_offset=first,
                        last_offset=last,
                        delivery_state=state,
                        delivery_count=count,
                    )
                    for first, last, state, count in write.batches
                ],
            )
        )
    return writing.WriteShareGroupStateRequest(group_id=group, topics=list(topics.values()))
