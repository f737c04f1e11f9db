"""ConsumerProtocolSubscription.

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class TopicPartition(Part, kw_only=True):
    """Part of ConsumerProtocolSubscription."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "1+"),
        Field("partitions", "int32", "1+", array=True),
    )


class ConsumerProtocolSubscription(Message, kw_only=True):
    """Versions 0 to 3."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 3)

    topics: list[str] = field(default_factory=list)
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = field(default_factory=list)
    generation_id: int = -1
    rack_id: str | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topics", "string", "0+", array=True),
        Field("user_data", "bytes", "0+", nullable="0+"),
        Field("owned_partitions", TopicPartition, "1+", array=True),
        Field("generation_id", "int32", "2+"),
        Field("rack_id", "string", "3+", nullable="3+"),
    )
