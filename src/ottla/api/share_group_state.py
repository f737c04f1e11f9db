"""Initialize-, Read-, Write-, Delete- and ReadShareGroupStateSummary: what brokers ask the share
coordinator (KIP-932).

83, 84 and 86 are version 0; 85 and 87 are versions 0 and 1. Leaders of partitions read and write,
group coordinators do the rest. Each share partition of a request is answered for itself; one whose
coordinator is not here gets NOT_COORDINATOR.
"""

from typing import Any

from ottla.api.authorization import OnCluster
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import delete_share_group_state as deleting
from ottla.wire.messages import initialize_share_group_state as initializing
from ottla.wire.messages import read_share_group_state as reading
from ottla.wire.messages import read_share_group_state_summary as summaries
from ottla.wire.messages import write_share_group_state as writing

BY_PARTITION = pieces("topics.partitions", "results.partitions")


def _refused(topic_result: Any, result: Any, response: Any) -> Any:
    """Makes the reply to a client that may not: the error for each share partition."""

    def refuse(asked: Any, code: ErrorCode) -> Any:
        return response(
            results=[
                topic_result(
                    topic_id=topic.topic_id,
                    partitions=[
                        result(partition=each.partition, error_code=code)
                        for each in topic.partitions
                    ],
                )
                for topic in asked.topics
            ]
        )

    return refuse


@api(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    0,
    0,
    initializing.InitializeShareGroupStateRequest,
    BY_PARTITION,
    authorize=OnCluster(
        Operation.CLUSTER_ACTION,
        _refused(
            initializing.InitializeStateResult,
            initializing.PartitionResult,
            initializing.InitializeShareGroupStateResponse,
        ),
    ),
)
async def initialize_share_group_state(
    request: Request, asked: initializing.InitializeShareGroupStateRequest
) -> initializing.InitializeShareGroupStateResponse:
    """Begin the state of share partitions."""
    found: initializing.InitializeShareGroupStateResponse
    found = await request.node.share_persister.serve(asked)
    return found


@api(
    ApiKey.READ_SHARE_GROUP_STATE,
    0,
    0,
    reading.ReadShareGroupStateRequest,
    BY_PARTITION,
    authorize=OnCluster(
        Operation.CLUSTER_ACTION,
        _refused(
            reading.ReadStateResult, reading.PartitionResult, reading.ReadShareGroupStateResponse
        ),
    ),
)
async def read_share_group_state(
    request: Request, asked: reading.ReadShareGroupStateRequest
) -> reading.ReadShareGroupStateResponse:
    """Give the leader of partitions their state, and fence older leaders."""
    found: reading.ReadShareGroupStateResponse = await request.node.share_persister.serve(asked)
    return found


@api(
    ApiKey.WRITE_SHARE_GROUP_STATE,
    0,
    1,
    writing.WriteShareGroupStateRequest,
    BY_PARTITION,
    authorize=OnCluster(
        Operation.CLUSTER_ACTION,
        _refused(
            writing.WriteStateResult, writing.PartitionResult, writing.WriteShareGroupStateResponse
        ),
    ),
)
async def write_share_group_state(
    request: Request, asked: writing.WriteShareGroupStateRequest
) -> writing.WriteShareGroupStateResponse:
    """Write what the leader of partitions changed."""
    found: writing.WriteShareGroupStateResponse = await request.node.share_persister.serve(asked)
    return found


@api(
    ApiKey.DELETE_SHARE_GROUP_STATE,
    0,
    0,
    deleting.DeleteShareGroupStateRequest,
    BY_PARTITION,
    authorize=OnCluster(
        Operation.CLUSTER_ACTION,
        _refused(
            deleting.DeleteStateResult,
            deleting.PartitionResult,
            deleting.DeleteShareGroupStateResponse,
        ),
    ),
)
async def delete_share_group_state(
    request: Request, asked: deleting.DeleteShareGroupStateRequest
) -> deleting.DeleteShareGroupStateResponse:
    """Delete the state of share partitions."""
    found: deleting.DeleteShareGroupStateResponse = await request.node.share_persister.serve(asked)
    return found


@api(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    0,
    1,
    summaries.ReadShareGroupStateSummaryRequest,
    BY_PARTITION,
    authorize=OnCluster(
        Operation.CLUSTER_ACTION,
        _refused(
            summaries.ReadStateSummaryResult,
            summaries.PartitionResult,
            summaries.ReadShareGroupStateSummaryResponse,
        ),
    ),
)
async def read_share_group_state_summary(
    request: Request, asked: summaries.ReadShareGroupStateSummaryRequest
) -> summaries.ReadShareGroupStateSummaryResponse:
    """Say where share partitions are."""
    found: summaries.ReadShareGroupStateSummaryResponse
    found = await request.node.share_persister.serve(asked)
    return found
