"""The state of share partitions, wherever its coordinator is: the share coordinators' client.

Rules kept here:
1. A request is divided by share partitions: each has a coordinator of its own. Those that are
   coordinated here are asked directly, the others with the same API over the network.
2. What fails because a coordinator is not there, is loading or has moved is tried again for a
   while. Nothing else is: every operation says what it is based on, and a repeated one is refused
   or changes nothing.
3. An outcome is an error code for each share partition; nothing raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import structlog

from ottla.broker.coordinators.share_coordinator import ShareCoordinator, coordinator_key
from ottla.broker.replication.link import LinkError
from ottla.broker.scheduling.waiting import settled
from ottla.coordinator.share_state.records import SharePartitionKey
from ottla.coordinator.share_state.shard import ShareStateShard
from ottla.metadata.elections import NO_LEADER
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import Message
from ottla.wire.messages import delete_share_group_state as deleting
from ottla.wire.messages import initialize_share_group_state as initializing
from ottla.wire.messages import read_share_group_state as reading
from ottla.wire.messages import read_share_group_state_summary as summaries
from ottla.wire.messages import write_share_group_state as writing

if TYPE_CHECKING:
    from ottla.broker.coordinators.context import CoordinatorContext

log = structlog.get_logger()

PATIENCE_SECONDS: Final = 10.0
FIRST_PAUSE_SECONDS: Final = 0.01
LONGEST_PAUSE_SECONDS: Final = 0.5
_RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class _Kind(NamedTuple):
    """One of the five APIs. They have the same form: a group, its topics, their partitions."""

    request: type[Any]
    response: type[Any]
    version: int
    topic: type[Any]
    topic_result: type[Any]
    result: type[Any]
    decide: Callable[[ShareStateShard, SharePartitionKey, Any, int], Any]


_KINDS: Final[dict[type[Any], _Kind]] = {
    kind.request: kind
    for kind in (
        _Kind(
            initializing.InitializeShareGroupStateRequest,
            initializing.InitializeShareGroupStateResponse,
            0,
            initializing.InitializeStateData,
            initializing.InitializeStateResult,
            initializing.PartitionResult,
            lambda shard, key, part, now: shard.handle_initialize(key, part, now),
        ),
        _Kind(
            reading.ReadShareGroupStateRequest,
            reading.ReadShareGroupStateResponse,
            0,
            reading.ReadStateData,
            reading.ReadStateResult,
            reading.PartitionResult,
            lambda shard, key, part, now: shard.handle_read(key, part, now),
        ),
        _Kind(
            writing.WriteShareGroupStateRequest,
            writing.WriteShareGroupStateResponse,
            1,
            writing.WriteStateData,
            writing.WriteStateResult,
            writing.PartitionResult,
            lambda shard, key, part, now: shard.handle_write(key, part, now),
        ),
        _Kind(
            deleting.DeleteShareGroupStateRequest,
            deleting.DeleteShareGroupStateResponse,
            0,
            deleting.DeleteStateData,
            deleting.DeleteStateResult,
            deleting.PartitionResult,
            lambda shard, key, part, now: shard.handle_delete(key, now),
        ),
        _Kind(
            summaries.ReadShareGroupStateSummaryRequest,
            summaries.ReadShareGroupStateSummaryResponse,
            1,
            summaries.ReadStateSummaryData,
            summaries.ReadStateSummaryResult,
            summaries.PartitionResult,
            lambda shard, key, part, now: shard.handle_summary(key, now),
        ),
    )
}

Parts = dict[SharePartitionKey, Any]
"""The part of a request, or of a response, for each share partition."""


class SharePersister:
    """The share coordinators of the cluster."""

    def __init__(self, context: CoordinatorContext, coordinator: ShareCoordinator) -> None:
        self._context = context
        self._coordinator = coordinator

    async def serve(self, request: Message) -> Any:
        """Answer a request by the coordinators of this broker."""
        kind = _KINDS[type(request)]
        return _response(kind, await self._here(kind, _parts(request)))

    async def ask(self, request: Message) -> Any:
        """Answer a request by whatever coordinators its share partitions have."""
        kind = _KINDS[type(request)]
        waiting, done = _parts(request), {}
        clock = asyncio.get_running_loop().time
        deadline, pause = clock() + PATIENCE_SECONDS, FIRST_PAUSE_SECONDS
        while waiting:
            await self._coordinator.ensure_topic()
            found = await self._ask_once(kind, waiting)
            done.update(found)
            if clock() + pause > deadline:
                break
            waiting = {
                key: part for key, part in waiting.items() if found[key].error_code in _RETRIED
            }
            if waiting:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        return _response(kind, {key: done[key] for key in _parts(request)})

    async def _ask_once(self, kind: _Kind, parts: Parts) -> Parts:
        by_leader: dict[int, Parts] = {}
        for key, part in parts.items():
            by_leader.setdefault(self._leader_of(key), {})[key] = part
        asked = [
            self._here(kind, each)
            if leader in (self._context.id, NO_LEADER)
            else self._there(kind, leader, each)
            for leader, each in by_leader.items()
        ]
        found: Parts = {}
        for each in await asyncio.gather(*asked):
            found.update(each)
        return found

    def _leader_of(self, key: SharePartitionKey) -> int:
        coordinator = self._coordinator
        try:
            index = coordinator.partition_of(coordinator_key(key))
        except KafkaError:
            return NO_LEADER
        return self._context.leader_of(coordinator.topic, index).id

    async def _here(self, kind: _Kind, parts: Parts) -> Parts:
        found: Parts = {}
        for key, part in parts.items():
            try:
                runner = self._coordinator.runner_for(key)
                found[key] = runner.ask_with_others(key, _decision(kind, key, part))
            except KafkaError as problem:
                found[key] = _refused(kind, key, problem.code, problem.message)
        for key, answer in found.items():
            try:
                found[key] = await settled(answer)
            except KafkaError as problem:
                found[key] = _refused(kind, key, problem.code, problem.message)
        return found

    async def _there(self, kind: _Kind, leader: int, parts: Parts) -> Parts:
        request = _request(kind, parts)
        try:
            answer = await self._context.peers.ask(leader, request, kind.response, kind.version)
        except LinkError as problem:
            return {
                key: _refused(kind, key, ErrorCode.NETWORK_EXCEPTION, str(problem)) for key in parts
            }
        told = {
            (topic.topic_id, each.partition): each
            for topic in answer.results
            for each in topic.partitions
        }
        missing = ErrorCode.UNKNOWN_SERVER_ERROR
        return {
            key: told.get((key.topic_id, key.partition)) or _refused(kind, key, missing, None)
            for key in parts
        }

    # What group coordinators ask ----------------------------------------------------------

    async def initialize(
        self, group_id: str, state_epoch: int, offsets: Mapping[UUID, Mapping[int, int]]
    ) -> dict[UUID, frozenset[int]]:
        """Initialize share partitions at these start offsets; returns those that failed."""
        request = initializing.InitializeShareGroupStateRequest(
            group_id=group_id,
            topics=[
                initializing.InitializeStateData(
                    topic_id=topic_id,
                    partitions=[
                        initializing.PartitionData(
                            partition=number, state_epoch=state_epoch, start_offset=offset
                        )
                        for number, offset in numbers.items()
                    ],
                )
                for topic_id, numbers in offsets.items()
            ],
        )
        errors = _errors(await self.ask(request))
        if errors:
            log.warning(
                "failed to initialize share partitions; the next heartbeat tries again",
                group=group_id,
                errors=sorted({code.name for codes in errors.values() for code in codes.values()}),
            )
        return {topic_id: frozenset(codes) for topic_id, codes in errors.items()}

    async def delete(
        self, group_id: str, partitions: Mapping[UUID, Iterable[int]]
    ) -> dict[UUID, ErrorCode]:
        """Delete the state of share partitions; returns the topics that failed."""
        request = deleting.DeleteShareGroupStateRequest(
            group_id=group_id,
            topics=[
                deleting.DeleteStateData(
                    topic_id=topic_id,
                    partitions=[deleting.PartitionData(partition=number) for number in numbers],
                )
                for topic_id, numbers in partitions.items()
            ],
        )
        errors = _errors(await self.ask(request))
        return {topic_id: next(iter(codes.values())) for topic_id, codes in errors.items()}

    async def summaries(
        self, group_id: str, partitions: Mapping[UUID, Iterable[int]]
    ) -> dict[tuple[UUID, int], summaries.PartitionResult]:
        """Where share partitions are."""
        request = summaries.ReadShareGroupStateSummaryRequest(
            group_id=group_id,
            topics=[
                summaries.ReadStateSummaryData(
                    topic_id=topic_id,
                    partitions=[summaries.PartitionData(partition=number) for number in numbers],
                )
                for topic_id, numbers in partitions.items()
            ],
        )
        answer = await self.ask(request)
        return {
            (topic.topic_id, each.partition): each
            for topic in answer.results
            for each in topic.partitions
        }


def _decision(
    kind: _Kind, key: SharePartitionKey, part: Any
) -> Callable[[ShareStateShard, int], Any]:
    return lambda shard, now: kind.decide(shard, key, part, now)


def _parts(request: Any) -> Parts:
    return {
        SharePartitionKey(request.group_id, topic.topic_id, part.partition): part
        for topic in request.topics
        for part in topic.partitions
    }


def _request(kind: _Kind, parts: Parts) -> Any:
    group_id = next(iter(parts)).group_id
    topics: dict[UUID, Any] = {}
    for key, part in parts.items():
        if key.topic_id not in topics:
            topics[key.topic_id] = kind.topic(topic_id=key.topic_id)
        topics[key.topic_id].partitions.append(part)
    return kind.request(group_id=group_id, topics=list(topics.values()))


def _response(kind: _Kind, parts: Parts) -> Any:
    topics: dict[UUID, Any] = {}
    for key, part in parts.items():
        if key.topic_id not in topics:
            topics[key.topic_id] = kind.topic_result(topic_id=key.topic_id)
        topics[key.topic_id].partitions.append(part)
    return kind.response(results=list(topics.values()))


def _refused(kind: _Kind, key: SharePartitionKey, code: ErrorCode, message: str | None) -> Any:
    return kind.result(partition=key.partition, error_code=code, error_message=message)


def _errors(answer: Any) -> dict[UUID, dict[int, ErrorCode]]:
    found: dict[UUID, dict[int, ErrorCode]] = {}
    for topic in answer.results:
        for each in topic.partitions:
            if each.error_code:
                found.setdefault(topic.topic_id, {})[each.partition] = ErrorCode(each.error_code)
    return found
