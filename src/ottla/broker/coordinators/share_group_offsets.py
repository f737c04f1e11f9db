"""Start offsets of share groups, for administrators: described, altered, deleted.

The group coordinator knows which share partitions a group has, the share coordinators know where
they are.

Rules kept here:
1. What is changed is first noted by the group coordinator, then carried out by the share
   coordinators, then noted as done. A reply leaves after that.
2. The lag of a share partition is the end of its partition less its start offset and what was
   delivered completely after that; -1 where one of them is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from ottla.broker.coordinators.group_coordinator import GroupCoordinator
from ottla.broker.coordinators.positions import ends_of
from ottla.broker.coordinators.share_persister import SharePersister
from ottla.broker.scheduling.waiting import settled
from ottla.coordinator.group_shard import GroupShard
from ottla.coordinator.shard import RequestContext, Result
from ottla.coordinator.share.effects import InitializeShareState
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import describe_share_group_offsets as described
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.read_share_group_state_summary import PartitionResult

if TYPE_CHECKING:
    from ottla.broker.coordinators.context import CoordinatorContext

R = TypeVar("R")
UNKNOWN: Final = -1


class ShareGroupOffsets:
    """The start offsets of the share groups that this broker coordinates."""

    def __init__(
        self, context: CoordinatorContext, groups: GroupCoordinator, persister: SharePersister
    ) -> None:
        self._context = context
        self._groups = groups
        self._persister = persister

    async def _ask(self, group_id: str, decide: Callable[[GroupShard, int], Result[R]]) -> R:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return await settled(self._groups.runner_of(group_id).ask(decide))

    async def describe_all(
        self, group_id: str, context: RequestContext
    ) -> list[described.DescribeShareGroupOffsetsResponseTopic]:
        """The share partitions of a group that have state; raises KafkaError."""
        partitions = await self._ask(
            group_id, lambda shard, now: shard.handle_share_partitions(group_id, context, now)
        )
        names = {
            topic.id: topic.name
            for topic_id in partitions
            if (topic := self._context.image.topics_by_id.get(topic_id)) is not None
        }
        wanted = {key: sorted(numbers) for key, numbers in partitions.items() if key in names}
        return await self._described(group_id, names, wanted)

    async def describe(
        self,
        group_id: str,
        topics: Sequence[described.DescribeShareGroupOffsetsRequestTopic],
    ) -> list[described.DescribeShareGroupOffsetsResponseTopic]:
        """These partitions of a group; what is not there has no start offset, as in Kafka."""
        names: dict[UUID, str] = {}
        wanted: dict[UUID, list[int]] = {}
        unknown = []
        for topic in topics:
            found = self._context.image.topics.get(topic.topic_name)
            if found is None:
                unknown.append(_not_found(topic))
                continue
            names[found.id] = topic.topic_name
            wanted.setdefault(found.id, []).extend(topic.partitions)
        return [*await self._described(group_id, names, wanted), *unknown]

    async def _described(
        self, group_id: str, names: Mapping[UUID, str], wanted: Mapping[UUID, list[int]]
    ) -> list[described.DescribeShareGroupOffsetsResponseTopic]:
        if not wanted:
            return []
        found = await self._persister.summaries(group_id, wanted)
        started = [(names[key[0]], key[1]) for key, each in found.items() if _has_lag(each)]
        context = self._context
        ends = await ends_of(started, context.id, context.image, context.partitions, context.peers)
        return [
            described.DescribeShareGroupOffsetsResponseTopic(
                topic_name=names[topic_id],
                topic_id=topic_id,
                partitions=[
                    _partition(found[topic_id, number], ends.get((names[topic_id], number)))
                    for number in numbers
                ],
            )
            for topic_id, numbers in wanted.items()
        ]

    async def alter(
        self, request: AlterShareGroupOffsetsRequest
    ) -> list[AlterShareGroupOffsetsResponseTopic]:
        """Give share partitions other start offsets; raises KafkaError."""
        group_id = request.group_id
        alteration = await self._ask(
            group_id, lambda shard, now: shard.begin_share_alteration(request, now)
        )
        if alteration.offsets:
            failed = await self._persister.initialize(
                group_id, alteration.state_epoch, alteration.offsets
            )
            effect = InitializeShareState(
                group_id,
                alteration.state_epoch,
                {key: frozenset(numbers) for key, numbers in alteration.offsets.items()},
            )
            await self._ask(
                group_id, lambda shard, now: shard.share_state_initialized(effect, failed, now)
            )
            for topic in alteration.topics:
                for each in topic.partitions:
                    if each.partition_index in failed.get(topic.topic_id, ()):
                        each.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return alteration.topics

    async def delete(
        self, request: DeleteShareGroupOffsetsRequest
    ) -> list[DeleteShareGroupOffsetsResponseTopic]:
        """Delete the start offsets of topics; raises KafkaError."""
        group_id = request.group_id
        deletion = await self._ask(
            group_id, lambda shard, now: shard.begin_share_deletion(request, now)
        )
        failed = await self._delete(group_id, deletion.partitions)
        names = {topic.id: topic.name for topic in self._context.image.topics.values()}
        return [
            *deletion.refused,
            *(
                DeleteShareGroupOffsetsResponseTopic(
                    topic_name=names.get(topic_id, ""),
                    topic_id=topic_id,
                    error_code=failed.get(topic_id, ErrorCode.NONE),
                )
                for topic_id in deletion.partitions
            ),
        ]

    async def delete_state_of_group(self, group_id: str) -> ErrorCode:
        """Delete the state of an empty share group before the group; others have none."""
        try:
            deletion = await self._ask(
                group_id, lambda shard, now: shard.begin_share_group_deletion(group_id, now)
            )
        except KafkaError:
            return ErrorCode.NONE  # the group's own deletion says what is wrong
        failed = await self._delete(group_id, deletion.partitions) if deletion else {}
        return next(iter(failed.values()), ErrorCode.NONE)

    async def _delete(
        self, group_id: str, partitions: Mapping[UUID, frozenset[int]]
    ) -> dict[UUID, ErrorCode]:
        if not partitions:
            return {}
        failed = await self._persister.delete(group_id, partitions)
        done = [topic_id for topic_id in partitions if topic_id not in failed]
        await self._ask(group_id, lambda shard, now: shard.end_share_deletion(group_id, done, now))
        return failed


def _has_lag(each: PartitionResult) -> bool:
    return (
        not each.error_code
        and each.start_offset != UNKNOWN
        and each.delivery_complete_count != UNKNOWN
    )


def _partition(
    each: PartitionResult, end: int | None
) -> described.DescribeShareGroupOffsetsResponsePartition:
    answer = described.DescribeShareGroupOffsetsResponsePartition(
        partition_index=each.partition, start_offset=UNKNOWN, lag=UNKNOWN
    )
    if each.error_code:
        return answer
    answer.start_offset, answer.leader_epoch = each.start_offset, each.leader_epoch
    if _has_lag(each) and end is not None:
        answer.lag = end - each.start_offset - each.delivery_complete_count
    return answer


def _not_found(
    topic: described.DescribeShareGroupOffsetsRequestTopic,
) -> described.DescribeShareGroupOffsetsResponseTopic:
    return described.DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            described.DescribeShareGroupOffsetsResponsePartition(
                partition_index=number,
                start_offset=UNKNOWN,
            )
            for number in topic.partitions
        ],
    )
