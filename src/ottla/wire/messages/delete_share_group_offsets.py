"""DeleteShareGroupOffsets (API key 92).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class DeleteShareGroupOffsetsRequestTopic(Part, kw_only=True):
    """Part of DeleteShareGroupOffsetsRequest."""

    topic_name: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("topic_name", "string", "0+"),)


class DeleteShareGroupOffsetsRequest(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 92
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("topics", DeleteShareGroupOffsetsRequestTopic, "0+", array=True),
    )


class DeleteShareGroupOffsetsResponseTopic(Part, kw_only=True):
    """Part of DeleteShareGroupOffsetsResponse."""

    topic_name: str = ""
    topic_id: UUID = NO_UUID
    error_code: int = 0
    error_message: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_name", "string", "0+"),
        Field("topic_id", "uuid", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class DeleteShareGroupOffsetsResponse(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 92
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("responses", DeleteShareGroupOffsetsResponseTopic, "0+", array=True),
    )
