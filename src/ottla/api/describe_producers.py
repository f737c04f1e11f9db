"""DescribeProducers, version 0: who writes to a partition, with open transactions (KIP-664)."""

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.config.topic_names import check_topic_name
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


@api(
    ApiKey.DESCRIBE_PRODUCERS,
    0,
    0,
    DescribeProducersRequest,
    pieces("topics.partition_indexes", "topics.partitions"),
    authorize=Inside((Operation.READ, ResourceType.TOPIC)),
)
def describe_producers(
    request: Request, asked: DescribeProducersRequest
) -> DescribeProducersResponse:
    """List the producers that each partition remembers."""
    answer = DescribeProducersResponse()
    for topic in asked.topics:
        results = TopicResponse(name=topic.name)
        answer.topics.append(results)
        for index in topic.partition_indexes:
            result = PartitionResponse(partition_index=index)
            results.partitions.append(result)
            try:
                check_topic_name(topic.name)
                request.access.check(Operation.READ, ResourceType.TOPIC, topic.name)
                partitions = request.node.partitions
                # A follower knows them too, and may be asked by name.
                partition = partitions.replica(topic.name, index) or partitions.find(
                    topic.name, index
                )
                result.active_producers = [
                    ProducerState(
                        producer_id=producer.producer_id,
                        producer_epoch=producer.epoch,
                        last_sequence=producer.last_sequence,
                        last_timestamp=producer.last_timestamp,
                        coordinator_epoch=producer.coordinator_epoch,
                        current_txn_start_offset=producer.txn_first_offset,
                    )
                    for producer in partition.log.producers.by_id.values()
                ]
            except Exception as problem:  # noqa: BLE001 one partition's failure is not the others'
                result.error_code, result.error_message = error_of(problem)
    return answer
