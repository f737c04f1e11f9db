"""What a Kafka message is made of: the base of all message classes, and their field specs.

The classes in `ottla.wire.messages` do not depend on a version: each has every field that any
version has. Its `FIELDS` say, in the order of the wire, which versions carry which field; the
codec is compiled from them.

Rules kept here:
1. Version ranges are written as in Kafka's own schemas: "3", "0-7", "4+".
2. A field that a version does not carry keeps its default when read, and is left out when written.
3. Fields hold plain values: int, str, bytes, bool, float, UUID, lists and parts. Times are
   milliseconds, error codes are ints.
"""

from typing import ClassVar, NamedTuple
from uuid import UUID

from msgspec import Struct

NO_UUID = UUID(int=0)
"""The wire has no null UUID: all zeros stand for "none"."""

NEVER_FLEXIBLE = 32767
"""For messages whose versions all have classic lengths and no tagged fields."""


class Part(Struct, kw_only=True):
    """A structure inside a message."""

    FIELDS: ClassVar[tuple["Field", ...]] = ()


class Message(Part, kw_only=True):
    """A whole request, response or other message, which can be read and written alone."""

    API_KEY: ClassVar[int] = -1
    """-1 for what is not a request or response."""
    VERSIONS: ClassVar[tuple[int, int]] = (0, -1)
    """First and last version, both included."""
    FLEXIBLE_FROM: ClassVar[int] = NEVER_FLEXIBLE
    """The first version with compact lengths and tagged fields."""


class Field(NamedTuple):
    """One field as the wire has it."""

    name: str
    type: str | type[Part]
    """A primitive by Kafka's name for it ("int32", "string", "records"), or a part's class."""
    versions: str
    array: bool = False
    nullable: str = "none"
    """The versions in which null may be sent."""
    tag: int | None = None
    """Tagged fields are sent after all others, and only where they differ from their default."""

    def is_in(self, version: int) -> bool:
        """True if this version carries the field."""
        return _contains(self.versions, version)

    def is_nullable_in(self, version: int) -> bool:
        """True if this version can say null."""
        return _contains(self.nullable, version)


def _contains(versions: str, version: int) -> bool:
    if versions == "none":
        return False
    first, dash, last = versions.removesuffix("+").partition("-")
    if version < int(first):
        return False
    if versions.endswith("+"):
        return True
    return version <= int(last if dash else first)
