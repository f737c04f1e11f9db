"""ListPartitionReassignments, version 0: which replicas are on the move (KIP-455)."""

from ottla.api.authorization import OnCluster
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.metadata.reassignments import reassignments
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


@api(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    0,
    0,
    ListPartitionReassignmentsRequest,
    pieces("topics.partition_indexes", "topics.partitions"),
    authorize=OnCluster(Operation.DESCRIBE),
)
def list_partition_reassignments(
    request: Request, asked: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List what is moving, among the partitions named or all."""
    wanted = None
    if asked.topics is not None:
        wanted = [
            (topic.name, index) for topic in asked.topics for index in topic.partition_indexes
        ]
    topics: dict[str, OngoingTopicReassignment] = {}
    for (name, index), moving in reassignments(request.node.image, wanted).items():
        topic = topics.setdefault(name, OngoingTopicReassignment(name=name))
        topic.partitions.append(
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=moving.replicas,
                adding_replicas=moving.adding,
                removing_replicas=moving.removing,
            )
        )
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))
