"""CreateTopics (API key 19).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class CreatableReplicaAssignment(Part, kw_only=True):
    """Part of CreateTopicsRequest."""

    partition_index: int = 0
    broker_ids: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "2+"),
        Field("broker_ids", "int32", "2+", array=True),
    )


class CreatableTopicConfig(Part, kw_only=True):
    """Part of CreateTopicsRequest."""

    name: str = ""
    value: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "2+"),
        Field("value", "string", "2+", nullable="2+"),
    )


class CreatableTopic(Part, kw_only=True):
    """Part of CreateTopicsRequest."""

    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "2+"),
        Field("num_partitions", "int32", "2+"),
        Field("replication_factor", "int16", "2+"),
        Field("assignments", CreatableReplicaAssignment, "2+", array=True),
        Field("configs", CreatableTopicConfig, "2+", array=True),
    )


class CreateTopicsRequest(Message, kw_only=True):
    """Versions 2 to 7."""

    API_KEY: ClassVar[int] = 19
    VERSIONS: ClassVar[tuple[int, int]] = (2, 7)
    FLEXIBLE_FROM: ClassVar[int] = 5

    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: int = 60000
    validate_only: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", CreatableTopic, "2+", array=True),
        Field("timeout_ms", "int32", "2+"),
        Field("validate_only", "bool", "2+"),
    )


class CreatableTopicConfigs(Part, kw_only=True):
    """Part of CreateTopicsResponse."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "5+"),
        Field("value", "string", "5+", nullable="5+"),
        Field("read_only", "bool", "5+"),
        Field("config_source", "int8", "5+"),
        Field("is_sensitive", "bool", "5+"),
    )


class CreatableTopicResult(Part, kw_only=True):
    """Part of CreateTopicsResponse."""

    name: str = ""
    topic_id: UUID = NO_UUID
    error_code: int = 0
    error_message: str | None = ""
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: list[CreatableTopicConfigs] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "2+"),
        Field("topic_id", "uuid", "7+"),
        Field("error_code", "int16", "2+"),
        Field("error_message", "string", "2+", nullable="2+"),
        Field("topic_config_error_code", "int16", "5+", tag=0),
        Field("num_partitions", "int32", "5+"),
        Field("replication_factor", "int16", "5+"),
        Field("configs", CreatableTopicConfigs, "5+", array=True, nullable="5+"),
    )


class CreateTopicsResponse(Message, kw_only=True):
    """Versions 2 to 7."""

    API_KEY: ClassVar[int] = 19
    VERSIONS: ClassVar[tuple[int, int]] = (2, 7)
    FLEXIBLE_FROM: ClassVar[int] = 5

    throttle_time_ms: int = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "2+"),
        Field("topics", CreatableTopicResult, "2+", array=True),
    )
