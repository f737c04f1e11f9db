"""A reader whose partitions are led by different brokers, and whose leaders move."""

from collections.abc import Callable

from ottla.client import Client, ClientSettings, Reader, TopicPartition
from ottla.records import Record, encode_batch
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from .fake_broker import FakeBroker

LOG_SIZE = 5


class Cluster:
    """Two brokers that know the same leaders: by partition, which of the two."""

    def __init__(self, leaders: list[int]) -> None:
        self.leaders = leaders
        self.brokers = [FakeBroker({FetchRequest: self._fetch(node)}) for node in (0, 1)]
        for broker in self.brokers:
            broker.answer(MetadataRequest, lambda _: self._metadata())

    def _metadata(self) -> MetadataResponse:
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node, host="127.0.0.1", port=broker.port)
                for node, broker in enumerate(self.brokers)
            ],
            topics=[
                MetadataResponseTopic(
                    name="t",
                    partitions=[
                        MetadataResponsePartition(partition_index=index, leader_id=leader)
                        for index, leader in enumerate(self.leaders)
                    ],
                )
            ],
        )

    def _fetch(self, node: int) -> Callable[[Message], Message]:
        def answer(request: Message) -> Message:
            assert isinstance(request, FetchRequest)
            (topic,) = request.topics
            data = [
                self._data(node, item.partition, item.fetch_offset) for item in topic.partitions
            ]
            return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=data)])

        return answer

    def _data(self, node: int, partition: int, offset: int) -> PartitionData:
        """One record, named by its partition and offset."""
        if self.leaders[partition] != node:
            return PartitionData(
                partition_index=partition, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        records = None
        if offset < LOG_SIZE:
            value = f"{partition}/{offset}".encode()
            records = encode_batch([Record(offset, 0, None, value)], base_offset=offset)
        return PartitionData(partition_index=partition, high_watermark=LOG_SIZE, records=records)


def test_both_brokers_are_read_at_once() -> None:
    cluster = Cluster([0, 1, 0])
    first, second = cluster.brokers
    wanted = [TopicPartition("t", index) for index in range(3)]
    with (
        first,
        second,
        Client(first.address) as client,
        Reader(client, dict.fromkeys(wanted, 0), until=dict.fromkeys(wanted, LOG_SIZE)) as reader,
    ):
        found = [record.value for batch in reader for record in batch.records]
    for index in range(3):
        own = [value for value in found if value and value.startswith(b"%d/" % index)]
        assert own == [b"%d/%d" % (index, offset) for offset in range(LOG_SIZE)]
    assert first.of(FetchRequest)
    assert second.of(FetchRequest)


def test_a_partition_is_followed_to_its_new_leader() -> None:
    cluster = Cluster([0, 0])
    first, second = cluster.brokers
    wanted = [TopicPartition("t", index) for index in range(2)]
    quick = ClientSettings(bootstrap_servers=first.address, backoff=0.001)
    with (
        first,
        second,
        Client(quick) as client,
        Reader(client, dict.fromkeys(wanted, 0), until=dict.fromkeys(wanted, LOG_SIZE)) as reader,
    ):
        found = [record.value for batch in reader.poll() for record in batch.records]
        cluster.leaders = [0, 1]
        found += [record.value for batch in reader for record in batch.records]
    assert sorted(value or b"" for value in found) == [
        b"%d/%d" % (index, offset) for index in range(2) for offset in range(LOG_SIZE)
    ]
    assert second.of(FetchRequest)
