"""WriteTxnMarkers, versions 1 and 2: a coordinator's decision reaches the partitions (KIP-98)."""

import asyncio
from collections.abc import Awaitable

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.broker.coordinators.txn_markers import write_marker
from ottla.coordinator.transactions.effects import TxnMarkers
from ottla.coordinator.transactions.state import TransactionPartition
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

Uncommitted = list[tuple[WritableTxnMarkerPartitionResult, asyncio.Future[ErrorCode]]]


@api(
    ApiKey.WRITE_TXN_MARKERS,
    1,
    2,
    WriteTxnMarkersRequest,
    pieces("markers.topics.partition_indexes", "markers.topics.partitions"),
    authorize=Inside(
        (Operation.ALTER, ResourceType.CLUSTER), (Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    ),
)
def write_txn_markers(
    request: Request, asked: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """Write a control batch into every partition named; answered when all are committed."""
    access = request.access
    may_write = access.allows(Operation.ALTER, ResourceType.CLUSTER) or access.may(
        Operation.CLUSTER_ACTION, ResourceType.CLUSTER
    )
    uncommitted: Uncommitted = []
    answer = WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            _write(
                                request,
                                marker,
                                TransactionPartition(topic.name, index),
                                uncommitted,
                            )
                            if may_write
                            else _refused(index)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in asked.markers
        ]
    )
    return _when_committed(request, answer, uncommitted) if uncommitted else answer


def _refused(index: int) -> WritableTxnMarkerPartitionResult:
    return WritableTxnMarkerPartitionResult(
        partition_index=index, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )


def _write(
    request: Request,
    marker: WritableTxnMarker,
    where: TransactionPartition,
    uncommitted: Uncommitted,
) -> WritableTxnMarkerPartitionResult:
    result = WritableTxnMarkerPartitionResult(partition_index=where.partition)
    later: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

    def on_done(code: ErrorCode) -> None:
        if not later.done():
            later.set_result(code)

    code = write_marker(
        request.node.coordinators,
        where,
        TxnMarkers(
            transactional_id="",
            decision=0,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            commit=marker.transaction_result,
            transaction_version=marker.transaction_version,
            partitions=(),
        ),
        on_done,
    )
    if code is None:
        uncommitted.append((result, later))
    else:
        result.error_code = code
    return result


async def _when_committed(
    request: Request, answer: WriteTxnMarkersResponse, uncommitted: Uncommitted
) -> WriteTxnMarkersResponse:
    patience = request.node.config.request_timeout_ms / 1000
    await asyncio.wait([later for _, later in uncommitted], timeout=patience)
    for result, later in uncommitted:
        result.error_code = later.result() if later.done() else ErrorCode.REQUEST_TIMED_OUT
    return answer
