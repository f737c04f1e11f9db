"""ListOffsets, versions 1 to 11: the first, the last, and the offset at a time.

KIPs: 79 (by timestamp), 207 (leader epochs), 734 (the maximum timestamp), 405 and 1005 (tiers:
without a remote tier the local log is all there is).

A negative timestamp stands for a place in the log. Each place came with a version of this API; an
older request that names it gets UNSUPPORTED_VERSION, before anything else is looked at.

What is found by time may lie on a slow disk: then the answer waits for it, and nobody else does.
"""

from collections import Counter
from collections.abc import Awaitable
from typing import NamedTuple

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.replicas.cold_reads import look_again
from ottla.broker.replicas.partition import Partition
from ottla.log.storage.page_cache import ColdReadError
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch import READ_COMMITTED
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

PLACES = {-2: 1, -1: 1, -3: 7, -4: 8, -5: 9, -6: 11}
"""The first version that knows each negative timestamp."""


class _Lookup(NamedTuple):
    """One partition of a request."""

    request: Request
    topic: str
    wanted: ListOffsetsPartition
    committed: bool

    def answer(self, may_wait: bool) -> ListOffsetsPartitionResponse:
        """Look it up; raises ColdReadError where it may not wait for the disk and has to."""
        wanted = self.wanted
        try:
            if wanted.timestamp < 0:
                first = PLACES.get(wanted.timestamp)
                if first is None or self.request.version < first:
                    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            epoch = wanted.current_leader_epoch
            partitions = self.request.node.partitions
            partition = partitions.find(self.topic, wanted.partition_index, epoch)
            partition.check_leader_epoch(epoch)
            return _look_up(partition, wanted, self.committed, may_wait)
        except ColdReadError:
            raise
        except Exception as problem:  # noqa: BLE001 one partition's failure is not the others'
            return _refusal(wanted, problem)


_Cold = list[tuple[list[ListOffsetsPartitionResponse], int, _Lookup, ColdReadError]]
"""What is looked up later: where the answer goes, and what has to be read first."""


@api(
    ApiKey.LIST_OFFSETS,
    1,
    11,
    ListOffsetsRequest,
    pieces("topics.partitions", "topics.partitions"),
    authorize=Inside((Operation.DESCRIBE, ResourceType.TOPIC)),
)
def list_offsets(
    request: Request, asked: ListOffsetsRequest
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Look up one offset for each partition named."""
    named = Counter(
        (topic.name, partition.partition_index)
        for topic in asked.topics
        for partition in topic.partitions
    )
    committed = asked.isolation_level == READ_COMMITTED
    answer = ListOffsetsResponse()
    cold: _Cold = []
    for topic in asked.topics:
        results = ListOffsetsTopicResponse(name=topic.name)
        answer.topics.append(results)
        hidden = not request.access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        for wanted in topic.partitions:
            if hidden:
                found = _refusal(wanted, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif named[topic.name, wanted.partition_index] > 1:
                found = _refusal(wanted, KafkaError(ErrorCode.INVALID_REQUEST))
            else:
                lookup = _Lookup(request, topic.name, wanted, committed)
                try:
                    found = lookup.answer(may_wait=False)
                except ColdReadError as problem:
                    found = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
                    cold.append((results.partitions, len(results.partitions), lookup, problem))
            results.partitions.append(found)
    return _when_read(request, answer, cold) if cold else answer


async def _when_read(
    request: Request, answer: ListOffsetsResponse, cold: _Cold
) -> ListOffsetsResponse:
    for results, place, lookup, problem in cold:
        try:
            results[place] = await look_again(request.node.cold_readers, problem, lookup.answer)
        except OSError as failure:
            results[place] = _refusal(lookup.wanted, failure)
    return answer


def _refusal(wanted: ListOffsetsPartition, problem: Exception) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index, error_code=error_of(problem)[0]
    )


def _look_up(
    partition: Partition, wanted: ListOffsetsPartition, committed: bool, may_wait: bool
) -> ListOffsetsPartitionResponse:
    log = partition.log
    if log.offline:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    limit = partition.readable_to(committed)
    found = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    match wanted.timestamp:
        case -1:  # latest
            _check_latest(partition)
            found.offset = limit
            found.leader_epoch = partition.leader_epoch
        case -2 | -4:  # earliest, earliest on this disk
            found.offset = log.start_offset
            found.leader_epoch = _epoch_of(partition, log.start_offset)
        case -5 | -6:  # latest in a remote tier, first not yet there: there is none
            pass
        case -3:  # the record with the maximum timestamp
            newest = log.max_timestamp_offset(limit, may_wait=may_wait)
            if newest is None:
                _check_latest(partition)
            else:
                found.timestamp, found.offset, found.leader_epoch = newest
        case timestamp:
            first = log.offset_for_timestamp(timestamp, limit, may_wait=may_wait)
            if first is None:
                _check_latest(partition)
            else:
                found.timestamp, found.offset, found.leader_epoch = first
    return found


def _check_latest(partition: Partition) -> None:
    """Refuse to say where the log ends, or that it lacks something, before that is known."""
    if partition.leadership is not None:
        partition.leadership.check_latest()


def _epoch_of(partition: Partition, offset: int) -> int:
    epoch = partition.log.epochs.epoch_of(offset)
    return partition.leader_epoch if epoch < 0 else epoch
