"""The few requests that most protocol tests send, with the fields that they rarely change."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from ottla.wire.message import NO_UUID
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from testkit.raw import Connection

PRODUCE = 12
"""The last version that names its topics; 13 has their ids."""
FETCH = 12
"""The last version that names its topics; from 13 on they have ids."""
FETCH_BY_ID = 17
LIST_OFFSETS = 10

EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3

WHOLE = 2**31 - 1


def produce_request(
    topic: str,
    records: bytes | None,
    partition: int = 0,
    *,
    acks: int = -1,
    topic_id: UUID = NO_UUID,
    timeout_ms: int = 30_000,
) -> ProduceRequest:
    """One partition's records."""
    data = PartitionProduceData(index=partition, records=records)
    part = TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[part])


def produce(
    connection: Connection,
    topic: str,
    records: bytes | None,
    partition: int = 0,
    *,
    acks: int = -1,
    version: int = PRODUCE,
) -> PartitionProduceResponse:
    """Produce to one partition and give its answer."""
    request = produce_request(topic, records, partition, acks=acks)
    answer = connection.ask(request, ProduceResponse, version)
    return answer.responses[0].partition_responses[0]


@dataclass(frozen=True)
class From:
    """One partition in a fetch."""

    topic: str | UUID
    offset: int = 0
    partition: int = 0
    leader_epoch: int = -1
    last_epoch: int = -1
    max_bytes: int = WHOLE


def fetch_request(
    *wanted: From,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = WHOLE,
    session_id: int = 0,
    session_epoch: int = -1,
    forgotten: Sequence[tuple[str | UUID, int]] = (),
    isolation_level: int = 0,
) -> FetchRequest:
    """A fetch of some partitions; without a session unless told."""
    topics = [
        FetchTopic(
            topic=part.topic if isinstance(part.topic, str) else "",
            topic_id=part.topic if isinstance(part.topic, UUID) else NO_UUID,
            partitions=[
                FetchPartition(
                    partition=part.partition,
                    fetch_offset=part.offset,
                    partition_max_bytes=part.max_bytes,
                    current_leader_epoch=part.leader_epoch,
                    last_fetched_epoch=part.last_epoch,
                )
            ],
        )
        for part in wanted
    ]
    forgotten_topics = [
        ForgottenTopic(
            topic=topic if isinstance(topic, str) else "",
            topic_id=topic if isinstance(topic, UUID) else NO_UUID,
            partitions=[partition],
        )
        for topic, partition in forgotten
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten_topics,
    )


def partitions_of(answer: FetchResponse) -> list[PartitionData]:
    """All partitions in a fetch's answer, in its order."""
    return [partition for topic in answer.responses for partition in topic.partitions]


def fetch(
    connection: Connection,
    wanted: From,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = WHOLE,
    version: int = FETCH,
) -> PartitionData:
    """Fetch one partition and give its answer."""
    request = fetch_request(
        wanted, max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes
    )
    answer = connection.ask(request, FetchResponse, version)
    assert answer.error_code == 0
    (partition,) = partitions_of(answer)
    return partition


def list_offset(
    connection: Connection,
    topic: str,
    timestamp: int,
    partition: int = 0,
    *,
    leader_epoch: int = -1,
    version: int = LIST_OFFSETS,
) -> ListOffsetsPartitionResponse:
    """Ask for one offset of one partition."""
    part = ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, current_leader_epoch=leader_epoch
    )
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[part])]
    )
    answer = connection.ask(request, ListOffsetsResponse, version)
    return answer.topics[0].partitions[0]


def end_offset(connection: Connection, topic: str, partition: int = 0) -> int:
    """The offset after a partition's last record."""
    return list_offset(connection, topic, LATEST, partition).offset


def new_producer(connection: Connection) -> tuple[int, int]:
    """A fresh producer id and its epoch."""
    answer = connection.ask(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
        InitProducerIdResponse,
        4,
    )
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch
