"""WriteTxnMarkers, versions 1 and 2: a coordinator's decision reaches the partitions (KIP-98)."""

from ottla.api.registry import Request, api
from ottla.broker.transactions import write_marker
from ottla.coordinator.transactions_result import TxnMarkers
from ottla.coordinator.transactions_state import TopicPartition
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


@api(ApiKey.WRITE_TXN_MARKERS, 1, 2, WriteTxnMarkersRequest)
def write_txn_markers(request: Request, asked: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Write a control batch into every partition named."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=partition,
                                error_code=_write(request, marker, topic.name, partition),
                            )
                            for partition in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in asked.markers
        ]
    )


def _write(request: Request, marker: WritableTxnMarker, topic: str, partition: int) -> ErrorCode:
    if topic not in request.node.image.topics:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return write_marker(
        request.node,
        TopicPartition(topic, partition),
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
    )
