"""How large replicas are, and the disks they are on (KIP-113, KIP-827)."""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.cluster import Client, TopicPartition
from ottla.client.errors import check
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)


class LogDirDescription(NamedTuple):
    """A log directory of a broker; -1 where the broker does not know a size."""

    path: str
    error_code: int
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, int]
    """The bytes of each replica."""


def describe_log_dirs(
    client: Client, node_id: int, partitions: Iterable[TopicPartition] | None = None
) -> list[LogDirDescription]:
    """The log directories of a broker, with some of its replicas or all of them."""
    topics: dict[str, DescribableLogDirTopic] | None = None
    if partitions is not None:
        topics = {}
        for name, index in partitions:
            topics.setdefault(name, DescribableLogDirTopic(topic=name)).partitions.append(index)
    request = DescribeLogDirsRequest(topics=None if topics is None else list(topics.values()))

    def attempt() -> DescribeLogDirsResponse:
        reply = client.call(request, DescribeLogDirsResponse, node_id)
        check(reply.error_code, None, f"log directories of broker {node_id}")
        return reply

    return [
        LogDirDescription(
            found.log_dir,
            found.error_code,
            found.total_bytes,
            found.usable_bytes,
            {
                TopicPartition(topic.name, each.partition_index): each.partition_size
                for topic in found.topics
                for each in topic.partitions
                if not each.is_future_key
            },
        )
        for found in client.retry(attempt).results
    ]
