"""The record of `__consumer_offsets` that a classic group is written as, in Kafka's format.

It holds all of the group's last stable generation.

Rules kept here:
1. It is written as version 3, as Kafka 4.3 does, and read from 0 to 4.
"""

from typing import ClassVar

from msgspec import field

from ottla.coordinator.record_keys import RecordKey
from ottla.wire.message import Field, Message, Part

CLASSIC_GROUP_VALUE_VERSION = 3


class GroupMetadataKey(RecordKey, kw_only=True):
    """Names a classic group."""

    RECORD_TYPE: ClassVar[int] = 2

    group: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("group", "string", "0+"),)


class MemberMetadata(Part, kw_only=True):
    """Part of GroupMetadataValue."""

    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = 0
    subscription: bytes = b""
    assignment: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("member_id", "string", "0+"),
        Field("group_instance_id", "string", "3+", nullable="3+"),
        Field("client_id", "string", "0+"),
        Field("client_host", "string", "0+"),
        Field("rebalance_timeout", "int32", "1+"),
        Field("session_timeout", "int32", "0+"),
        Field("subscription", "bytes", "0+"),
        Field("assignment", "bytes", "0+"),
    )


class GroupMetadataValue(Message, kw_only=True):
    """Versions 0 to 4."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int] = 4

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: int = -1
    members: list[MemberMetadata] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("protocol_type", "string", "0+"),
        Field("generation", "int32", "0+"),
        Field("protocol", "string", "0+", nullable="0+"),
        Field("leader", "string", "0+", nullable="0+"),
        Field("current_state_timestamp", "int64", "2+"),
        Field("members", MemberMetadata, "0+", array=True),
    )
