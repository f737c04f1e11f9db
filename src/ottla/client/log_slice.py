"""One look into a partition's log: what one Fetch answers, control batches included.

For those who must know what became of transactions; readers of records use `Reader`.
"""

from ottla.client.cluster import Client, TopicPartition
from ottla.client.errors import OffsetOutOfRange, check, error
from ottla.wire.errors import ErrorCode
from ottla.wire.fetch import FINAL_EPOCH
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)


def fetch_slice(
    client: Client,
    where: TopicPartition,
    offset: int,
    *,
    read_committed: bool,
    max_bytes: int = 1 << 20,
) -> PartitionData:
    """What the leader answers at once; at least one batch, if there is one at or after the offset.

    Raises OffsetOutOfRange where the log does not reach so far, or no longer.
    """
    topic, index = where

    def attempt() -> PartitionData:
        leader = client.leader(topic, index)
        request = FetchRequest(
            max_bytes=max_bytes,
            isolation_level=int(read_committed),
            session_epoch=FINAL_EPOCH,
            topics=[
                FetchTopic(
                    topic=topic,
                    topic_id=client.topic(topic).id,
                    partitions=[
                        FetchPartition(
                            partition=index, fetch_offset=offset, partition_max_bytes=max_bytes
                        )
                    ],
                )
            ],
        )
        reply = client.call(request, FetchResponse, leader)
        check(reply.error_code)
        data = reply.responses[0].partitions[0]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetOutOfRange(topic, index, offset)
        if data.error_code:
            client.forget(topic)
            raise error(data.error_code, None, f"partition {index} of topic {topic}")
        return data

    return client.retry(attempt)
