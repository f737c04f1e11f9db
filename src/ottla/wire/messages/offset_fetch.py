"""OffsetFetch (API key 9).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class OffsetFetchRequestTopics(Part, kw_only=True):
    """Part of OffsetFetchRequest."""

    name: str = ""
    topic_id: UUID = NO_UUID
    partition_indexes: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "8-9"),
        Field("topic_id", "uuid", "10+"),
        Field("partition_indexes", "int32", "8+", array=True),
    )


class OffsetFetchRequestGroup(Part, kw_only=True):
    """Part of OffsetFetchRequest."""

    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "8+"),
        Field("member_id", "string", "9+", nullable="9+"),
        Field("member_epoch", "int32", "9+"),
        Field("topics", OffsetFetchRequestTopics, "8+", array=True, nullable="8+"),
    )


class OffsetFetchRequestTopic(Part, kw_only=True):
    """Part of OffsetFetchRequest."""

    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "1-7"),
        Field("partition_indexes", "int32", "1-7", array=True),
    )


class OffsetFetchRequest(Message, kw_only=True):
    """Versions 1 to 10."""

    API_KEY: ClassVar[int] = 9
    VERSIONS: ClassVar[tuple[int, int]] = (1, 10)
    FLEXIBLE_FROM: ClassVar[int] = 6

    group_id: str = ""
    groups: list[OffsetFetchRequestGroup] = field(default_factory=list)
    topics: list[OffsetFetchRequestTopic] | None = field(default_factory=list)
    require_stable: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "1-7"),
        Field("groups", OffsetFetchRequestGroup, "8+", array=True),
        Field("topics", OffsetFetchRequestTopic, "1-7", array=True, nullable="2-7"),
        Field("require_stable", "bool", "7+"),
    )


class OffsetFetchResponsePartition(Part, kw_only=True):
    """Part of OffsetFetchResponse."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "1-7"),
        Field("committed_offset", "int64", "1-7"),
        Field("committed_leader_epoch", "int32", "5-7"),
        Field("metadata", "string", "1-7", nullable="1-7"),
        Field("error_code", "int16", "1-7"),
    )


class OffsetFetchResponseTopic(Part, kw_only=True):
    """Part of OffsetFetchResponse."""

    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "1-7"),
        Field("partitions", OffsetFetchResponsePartition, "1-7", array=True),
    )


class OffsetFetchResponsePartitions(Part, kw_only=True):
    """Part of OffsetFetchResponse."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "8+"),
        Field("committed_offset", "int64", "8+"),
        Field("committed_leader_epoch", "int32", "8+"),
        Field("metadata", "string", "8+", nullable="8+"),
        Field("error_code", "int16", "8+"),
    )


class OffsetFetchResponseTopics(Part, kw_only=True):
    """Part of OffsetFetchResponse."""

    name: str = ""
    topic_id: UUID = NO_UUID
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "8-9"),
        Field("topic_id", "uuid", "10+"),
        Field("partitions", OffsetFetchResponsePartitions, "8+", array=True),
    )


class OffsetFetchResponseGroup(Part, kw_only=True):
    """Part of OffsetFetchResponse."""

    group_id: str = ""
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "8+"),
        Field("topics", OffsetFetchResponseTopics, "8+", array=True),
        Field("error_code", "int16", "8+"),
    )


class OffsetFetchResponse(Message, kw_only=True):
    """Versions 1 to 10."""

    API_KEY: ClassVar[int] = 9
    VERSIONS: ClassVar[tuple[int, int]] = (1, 10)
    FLEXIBLE_FROM: ClassVar[int] = 6

    throttle_time_ms: int = 0
    topics: list[OffsetFetchResponseTopic] = field(default_factory=list)
    groups: list[OffsetFetchResponseGroup] = field(default_factory=list)
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "3+"),
        Field("topics", OffsetFetchResponseTopic, "1-7", array=True),
        Field("groups", OffsetFetchResponseGroup, "8+", array=True),
        Field("error_code", "int16", "2-7"),
    )
