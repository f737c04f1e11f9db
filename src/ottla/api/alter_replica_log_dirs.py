"""AlterReplicaLogDirs, versions 1 and 2: a broker has one folder, and every replica is in it."""

import os

from ottla.api.authorization import Inside
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

LONGEST_NAME_TO_MOVE = 255 - len("-0") - len(".") - 32 - len("-future")
"""Kafka copies a replica into a folder whose name must not be longer than a file system allows."""


@api(
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    1,
    2,
    AlterReplicaLogDirsRequest,
    pieces("dirs.topics.partitions", "results.partitions"),
    authorize=Inside((Operation.ALTER, ResourceType.CLUSTER)),
)
def alter_replica_log_dirs(
    request: Request, asked: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """A move to where a replica is already succeeds; there is nowhere else."""
    may_alter = request.access.may(Operation.ALTER, ResourceType.CLUSTER)
    own = os.path.abspath(request.node.folder.path)
    here = {(partition.topic, partition.index) for partition in request.node.partitions}
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for folder in asked.dirs:
        for topic in folder.topics:
            result = topics.setdefault(
                topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name)
            )
            for index in topic.partitions:
                code = ErrorCode.NONE
                if not may_alter:
                    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                elif len(topic.name) > LONGEST_NAME_TO_MOVE:
                    code = ErrorCode.INVALID_TOPIC_EXCEPTION
                elif os.path.abspath(folder.path) != own:
                    code = ErrorCode.LOG_DIR_NOT_FOUND
                elif (topic.name, index) not in request.node.image.partitions:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif (topic.name, index) not in here:
                    code = ErrorCode.REPLICA_NOT_AVAILABLE
                result.partitions.append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                )
    return AlterReplicaLogDirsResponse(results=list(topics.values()))
