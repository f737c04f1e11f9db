"""DescribeQuorum, versions 0 to 2: the controller, as Kafka's tools ask for it (KIP-595).

There is no quorum of brokers here: ZooKeeper or SQLite keeps the metadata. What is true of it:

1. The controller is the only voter, and leads with the controller's epoch; the other brokers
   follow the metadata, so they are observers. How far they have come is not known here (-1).
2. An offset counts the changes of the store that this broker has seen.
3. As in Kafka only partition 0 of `__cluster_metadata` can be asked for.
"""

from typing import Final
from uuid import UUID

from ottla.api.authorization import OnCluster
from ottla.api.registry import Request, api
from ottla.log.storage.folder import uuid_from_text
from ottla.metadata.image import BrokerImage
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.message import NO_UUID
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)

TOPIC: Final = "__cluster_metadata"
NOT_KNOWN: Final = -1


@api(
    ApiKey.DESCRIBE_QUORUM,
    0,
    2,
    DescribeQuorumRequest,
    authorize=OnCluster(Operation.DESCRIBE),
)
def describe_quorum(request: Request, asked: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Say which broker is the controller."""
    wanted = [
        (topic.topic_name, each.partition_index)
        for topic in asked.topics
        for each in topic.partitions
    ]
    if wanted != [(TOPIC, 0)]:
        return _refused(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    node = request.node
    controller = node.image.controller
    leader = None if controller is None else node.image.brokers.get(controller.broker)
    if controller is None or leader is None:
        return _refused(asked, ErrorCode.LEADER_NOT_AVAILABLE)
    position = node.metadata.store.position().number
    now = node.now_ms()
    voter = ReplicaState(
        replica_id=leader.id,
        replica_directory_id=_directory(leader),
        log_end_offset=position,
        last_fetch_timestamp=now,
        last_caught_up_timestamp=now,
    )
    partition = DescribeQuorumResponsePartitionData(
        error_message=None,
        leader_id=leader.id,
        leader_epoch=controller.epoch,
        high_watermark=position,
        current_voters=[voter],
        observers=[
            ReplicaState(
                replica_id=each.id,
                replica_directory_id=_directory(each),
                log_end_offset=NOT_KNOWN,
            )
            for each in node.image.brokers.values()
            if each.id != leader.id
        ],
    )
    return DescribeQuorumResponse(
        error_message=None,
        topics=[DescribeQuorumResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        nodes=[
            Node(
                node_id=leader.id,
                listeners=[
                    Listener(name=each.name.upper(), host=each.host, port=each.port)
                    for each in leader.endpoints
                ],
            )
        ],
    )


def _refused(asked: DescribeQuorumRequest, code: ErrorCode) -> DescribeQuorumResponse:
    """Every partition with an error, as Kafka refuses what is no quorum."""
    return DescribeQuorumResponse(
        error_message=None,
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponsePartitionData(
                        partition_index=each.partition_index,
                        error_code=code,
                        error_message=None,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in asked.topics
        ],
    )


def _directory(broker: BrokerImage) -> UUID:
    return NO_UUID if broker.storage is None else uuid_from_text(broker.storage.directory)
