"""TxnOffsetCommit, versions 0 to 5: positions that count when a transaction commits.

KIPs: 98, 447 (members are checked), 890 (from version 5 the group's partition joins the
transaction by this request).

A partition that does not exist gets its error first, for any producer: where none of them exists,
neither the transaction nor the group sees the request.
"""

from msgspec.structs import replace

from ottla.api.authorization import Inside
from ottla.api.pieces import MOST_TOGETHER, pieces
from ottla.api.registry import Request, api, error_of
from ottla.api.topic_rights import split_allowed
from ottla.broker.replicas.verification import VerificationGuard
from ottla.broker.scheduling.waiting import settled
from ottla.coordinator.group_state import check_group_id
from ottla.metadata.image import Image
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

FIRST_THAT_ADDS = 5

_TOLD = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""What went wrong between brokers, as Kafka says it to clients: these errors make them ask again,
while some take the others for the end of their transaction."""


@api(
    ApiKey.TXN_OFFSET_COMMIT,
    0,
    5,
    TxnOffsetCommitRequest,
    pieces("topics.partitions", "topics.partitions", MOST_TOGETHER),
    authorize=Inside(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        (Operation.READ, ResourceType.GROUP),
        (Operation.READ, ResourceType.TOPIC),
    ),
)
async def txn_offset_commit(
    request: Request, asked: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """Write the offsets as part of the producer's transaction."""
    access = request.access
    if not access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, asked.transactional_id):
        return _refuse_all(asked, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not access.may(Operation.READ, ResourceType.GROUP, asked.group_id):
        return _refuse_all(asked, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    rest, hidden = split_allowed(
        asked.topics, lambda topic: access.may(Operation.READ, ResourceType.TOPIC, topic.name)
    )
    if not hidden:
        return await _commit(request, asked)
    refused = _refuse_all(replace(asked, topics=hidden), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if rest:
        refused.topics += (await _commit(request, replace(asked, topics=rest))).topics
    return refused


async def _commit(request: Request, asked: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    image = request.node.image
    if not any(_exists(image, topic, part) for topic in asked.topics for part in topic.partitions):
        return _refuse(image, asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        check_group_id(asked.group_id)
        runner = request.node.groups.runner_of(asked.group_id)
        moment = VerificationGuard(runner.partition, asked.producer_id)
        await _verify(request, asked, runner.partition.index)
        if request.version < FIRST_THAT_ADDS and moment.is_over:
            # Its marker would not end what is written behind it: let the client ask again.
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return await settled(
            runner.ask(
                lambda shard, now: shard.handle_txn_offset_commit(asked, request.context, now)
            )
        )
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        code, _ = error_of(problem)
        return _refuse(image, asked, _TOLD.get(code, code))


def _exists(
    image: Image, topic: TxnOffsetCommitRequestTopic, part: TxnOffsetCommitRequestPartition
) -> bool:
    return (topic.name, part.partition_index) in image.partitions


async def _verify(request: Request, asked: TxnOffsetCommitRequest, partition: int) -> None:
    """See that the transaction's coordinator knows of the group's partition, or let it know."""
    node = request.node
    question = AddPartitionsToTxnTransaction(
        transactional_id=asked.transactional_id,
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        verify_only=request.version < FIRST_THAT_ADDS,
        topics=[AddPartitionsToTxnTopic(name=node.groups.topic, partitions=[partition])],
    )
    answer = await settled(node.transactions.add_partitions(question))
    code = answer.topic_results[0].results_by_partition[0].partition_error_code
    if code:
        if code == ErrorCode.TRANSACTION_ABORTABLE and request.version < FIRST_THAT_ADDS - 1:
            code = ErrorCode.INVALID_TXN_STATE
        if code == ErrorCode.PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH  # as Kafka's brokers say it to each other
        raise KafkaError(ErrorCode(code))


def _refuse_all(asked: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in asked.topics
        ]
    )


def _refuse(image: Image, asked: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=code
                        if _exists(image, topic, partition)
                        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in asked.topics
        ]
    )
