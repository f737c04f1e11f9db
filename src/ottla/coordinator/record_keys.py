"""The keys of records of `__consumer_offsets`: what all of them share.

Rules kept here:
1. A key names its record type by Kafka's number. The number is the key's first two bytes.
2. Keys are never flexible.
"""

from typing import ClassVar

from ottla.wire.message import Field, Message


class RecordKey(Message, kw_only=True):
    """The base of every key."""

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    RECORD_TYPE: ClassVar[int] = -1


class GroupKey(RecordKey, kw_only=True):
    """The fields of every key that names a group of a newer kind than classic."""

    group_id: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("group_id", "string", "0+"),)


class MemberKey(GroupKey, kw_only=True):
    """The fields of every key that names a member of such a group."""

    member_id: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("member_id", "string", "0+"),
    )
