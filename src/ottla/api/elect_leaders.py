"""ElectLeaders, versions 0 to 2: preferred leaders, or unclean elections (KIP-183, 460)."""

from ottla.api.authorization import OnCluster
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.metadata.reassigning import elect_leaders
from ottla.metadata.elect_leaders import ElectionType
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


@api(
    ApiKey.ELECT_LEADERS,
    0,
    2,
    ElectLeadersRequest,
    pieces("topic_partitions.partitions", "replica_election_results.partition_result"),
    authorize=OnCluster(Operation.ALTER),
)
async def elect(request: Request, asked: ElectLeadersRequest) -> ElectLeadersResponse:
    """Hold an election in each partition named, or in all that need one."""
    if asked.election_type not in list(ElectionType):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    wanted = None
    if asked.topic_partitions is not None:
        wanted = [
            (topic.topic, index) for topic in asked.topic_partitions for index in topic.partitions
        ]
    try:
        outcomes = await elect_leaders(
            request.node.metadata, ElectionType(asked.election_type), wanted
        )
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        return ElectLeadersResponse(error_code=error_of(problem)[0])
    topics: dict[str, ReplicaElectionResult] = {}
    for (name, index), wrong in outcomes.items():
        result = topics.setdefault(name, ReplicaElectionResult(topic=name))
        result.partition_result.append(
            PartitionResult(
                partition_id=index,
                error_code=ErrorCode.NONE if wrong is None else wrong.code,
                error_message=None if wrong is None else wrong.message,
            )
        )
    return ElectLeadersResponse(replica_election_results=list(topics.values()))
