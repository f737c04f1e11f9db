"""AlterReplicaLogDirs (API key 34).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class AlterReplicaLogDirTopic(Part, kw_only=True):
    """Part of AlterReplicaLogDirsRequest."""

    name: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "1+"),
        Field("partitions", "int32", "1+", array=True),
    )


class AlterReplicaLogDir(Part, kw_only=True):
    """Part of AlterReplicaLogDirsRequest."""

    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("path", "string", "1+"),
        Field("topics", AlterReplicaLogDirTopic, "1+", array=True),
    )


class AlterReplicaLogDirsRequest(Message, kw_only=True):
    """Versions 1 to 2."""

    API_KEY: ClassVar[int] = 34
    VERSIONS: ClassVar[tuple[int, int]] = (1, 2)
    FLEXIBLE_FROM: ClassVar[int] = 2

    dirs: list[AlterReplicaLogDir] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("dirs", AlterReplicaLogDir, "1+", array=True),)


class AlterReplicaLogDirPartitionResult(Part, kw_only=True):
    """Part of AlterReplicaLogDirsResponse."""

    partition_index: int = 0
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "1+"),
        Field("error_code", "int16", "1+"),
    )


class AlterReplicaLogDirTopicResult(Part, kw_only=True):
    """Part of AlterReplicaLogDirsResponse."""

    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_name", "string", "1+"),
        Field("partitions", AlterReplicaLogDirPartitionResult, "1+", array=True),
    )


class AlterReplicaLogDirsResponse(Message, kw_only=True):
    """Versions 1 to 2."""

    API_KEY: ClassVar[int] = 34
    VERSIONS: ClassVar[tuple[int, int]] = (1, 2)
    FLEXIBLE_FROM: ClassVar[int] = 2

    throttle_time_ms: int = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("results", AlterReplicaLogDirTopicResult, "1+", array=True),
    )
