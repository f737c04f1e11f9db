"""DescribeCluster, versions 0 to 2: the brokers and the controller (KIP-700)."""

from ottla.api.authorization import Inside
from ottla.api.metadata import brokers, cluster_operations
from ottla.api.registry import Request, api
from ottla.security.operations import NOT_ASKED, Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


@api(
    ApiKey.DESCRIBE_CLUSTER,
    0,
    2,
    DescribeClusterRequest,
    authorize=Inside((Operation.DESCRIBE, ResourceType.CLUSTER)),
)
def describe_cluster(request: Request, asked: DescribeClusterRequest) -> DescribeClusterResponse:
    """List the live brokers."""
    if asked.endpoint_type != BROKERS:
        code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        why = f"Unsupported endpoint type {asked.endpoint_type}"
        if asked.endpoint_type == CONTROLLERS:
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
            why = (
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of "
                "type CONTROLLER"
            )
        return DescribeClusterResponse(error_code=code, error_message=why, endpoint_type=BROKERS)
    return DescribeClusterResponse(
        cluster_id=request.node.cluster_id,
        controller_id=request.node.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=each.node_id, host=each.host, port=each.port, rack=each.rack
            )
            for each in brokers(request)
        ],
        cluster_authorized_operations=cluster_operations(request)
        if asked.include_cluster_authorized_operations
        else NOT_ASKED,
    )
