"""DescribeLogDirs, versions 1 to 5: what the data folder holds, and how full its disk is."""

import os

from ottla.api.authorization import OnCluster
from ottla.api.registry import Request, api
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@api(
    ApiKey.DESCRIBE_LOG_DIRS, 1, 5, DescribeLogDirsRequest, authorize=OnCluster(Operation.DESCRIBE)
)
def describe_log_dirs(request: Request, asked: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Tell the size of every partition, or of those named."""
    folder = str(request.node.folder.path)
    result = DescribeLogDirsResult(log_dir=folder)
    try:
        disk = os.statvfs(folder)
        result.total_bytes = disk.f_blocks * disk.f_frsize
        result.usable_bytes = disk.f_bavail * disk.f_frsize
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    named = None
    if asked.topics is not None:
        named = {(topic.topic, index) for topic in asked.topics for index in topic.partitions}
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in request.node.partitions:
        if named is not None and (partition.topic, partition.index) not in named:
            continue
        topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.index, partition_size=partition.log.size
            )
        )
    result.topics = list(topics.values())
    return DescribeLogDirsResponse(results=[result])
