"""DeleteTopics (API key 20).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Message, Part


class DeleteTopicState(Part, kw_only=True):
    """Part of DeleteTopicsRequest."""

    name: str | None = None
    topic_id: UUID = NO_UUID

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "6+", nullable="6+"),
        Field("topic_id", "uuid", "6+"),
    )


class DeleteTopicsRequest(Message, kw_only=True):
    """Versions 1 to 6."""

    API_KEY: ClassVar[int] = 20
    VERSIONS: ClassVar[tuple[int, int]] = (1, 6)
    FLEXIBLE_FROM: ClassVar[int] = 4

    topic_names: list[str] = field(default_factory=list)
    topics: list[DeleteTopicState] = field(default_factory=list)
    timeout_ms: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic_names", "string", "1-5", array=True),
        Field("topics", DeleteTopicState, "6+", array=True),
        Field("timeout_ms", "int32", "1+"),
    )


class DeletableTopicResult(Part, kw_only=True):
    """Part of DeleteTopicsResponse."""

    name: str | None = ""
    topic_id: UUID = NO_UUID
    error_code: int = 0
    error_message: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "1+", nullable="6+"),
        Field("topic_id", "uuid", "6+"),
        Field("error_code", "int16", "1+"),
        Field("error_message", "string", "5+", nullable="5+"),
    )


class DeleteTopicsResponse(Message, kw_only=True):
    """Versions 1 to 6."""

    API_KEY: ClassVar[int] = 20
    VERSIONS: ClassVar[tuple[int, int]] = (1, 6)
    FLEXIBLE_FROM: ClassVar[int] = 4

    throttle_time_ms: int = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "1+"),
        Field("responses", DeletableTopicResult, "1+", array=True),
    )
