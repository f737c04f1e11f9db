"""ListPartitionReassignments (API key 46).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class ListPartitionReassignmentsTopics(Part, kw_only=True):
    """Part of ListPartitionReassignmentsRequest."""

    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partition_indexes", "int32", "0+", array=True),
    )


class ListPartitionReassignmentsRequest(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 46
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    timeout_ms: int = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("timeout_ms", "int32", "0+"),
        Field("topics", ListPartitionReassignmentsTopics, "0+", array=True, nullable="0+"),
    )


class OngoingPartitionReassignment(Part, kw_only=True):
    """Part of ListPartitionReassignmentsResponse."""

    partition_index: int = 0
    replicas: list[int] = field(default_factory=list)
    adding_replicas: list[int] = field(default_factory=list)
    removing_replicas: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("replicas", "int32", "0+", array=True),
        Field("adding_replicas", "int32", "0+", array=True),
        Field("removing_replicas", "int32", "0+", array=True),
    )


class OngoingTopicReassignment(Part, kw_only=True):
    """Part of ListPartitionReassignmentsResponse."""

    name: str = ""
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", OngoingPartitionReassignment, "0+", array=True),
    )


class ListPartitionReassignmentsResponse(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 46
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: list[OngoingTopicReassignment] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("topics", OngoingTopicReassignment, "0+", array=True),
    )
