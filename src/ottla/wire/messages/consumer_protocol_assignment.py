"""ConsumerProtocolAssignment.

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class TopicPartition(Part, kw_only=True):
    """Part of ConsumerProtocolAssignment."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("topic", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class ConsumerProtocolAssignment(Message, kw_only=True):
    """Versions 0 to 3."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 3)

    assigned_partitions: list[TopicPartition] = field(default_factory=list)
    user_data: bytes | None = None

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("assigned_partitions", TopicPartition, "0+", array=True),
        Field("user_data", "bytes", "0+", nullable="0+"),
    )
