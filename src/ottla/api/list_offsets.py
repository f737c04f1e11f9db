"""ListOffsets, versions 1 to 11: the first, the last, and the offset at a time.

KIPs: 79 (by timestamp), 207 (leader epochs), 734 (the maximum timestamp), 405 and 1005 (tiers:
without a remote tier the local log is all there is).

A negative timestamp stands for a place in the log. Each place came with a version of this API; an
older request that names it is told UNSUPPORTED_VERSION, before anything else is looked at.
"""

from collections import Counter

from ottla.api.registry import Request, api, error_of
from ottla.broker.partition import Partition
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


@api(ApiKey.LIST_OFFSETS, 1, 11, ListOffsetsRequest)
def list_offsets(request: Request, asked: ListOffsetsRequest) -> ListOffsetsResponse:
    """Look up one offset for each partition named."""
    named = Counter(
        (topic.name, partition.partition_index)
        for topic in asked.topics
        for partition in topic.partitions
    )
    answer = ListOffsetsResponse()
    for topic in asked.topics:
        results = ListOffsetsTopicResponse(name=topic.name)
        answer.topics.append(results)
        for wanted in topic.partitions:
            try:
                if named[topic.name, wanted.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                if wanted.timestamp < 0:
                    first = PLACES.get(wanted.timestamp)
                    if first is None or request.version < first:
                        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
                epoch = wanted.current_leader_epoch
                partition = request.node.partitions.find(topic.name, wanted.partition_index, epoch)
                partition.check_leader_epoch(epoch)
                committed = asked.isolation_level == READ_COMMITTED
                results.partitions.append(_look_up(partition, wanted, committed))
            except Exception as problem:  # noqa: BLE001 one partition's failure is not the others'
                results.partitions.append(
                    ListOffsetsPartitionResponse(
                        partition_index=wanted.partition_index, error_code=error_of(problem)[0]
                    )
                )
    return answer


def _look_up(
    partition: Partition, wanted: ListOffsetsPartition, committed: bool
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
            newest = log.max_timestamp_offset(limit)
            if newest is None:
                _check_latest(partition)
            else:
                found.timestamp, found.offset, found.leader_epoch = newest
        case timestamp:
            first = log.offset_for_timestamp(timestamp, limit)
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
