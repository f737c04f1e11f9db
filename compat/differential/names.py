"""Ids that brokers choose, made comparable: real ids of one broker <-> canonical ones.

Rules kept here:
1. An id is named for the step whose reply first had it, and for its place in that reply. Two
   brokers that do the same thing get the same canonical ids.
2. Ids that no reply ever had stay as they are, so that a step can name what does not exist.
3. A name's prefix is replaced wherever it is found: in strings and in bytes.
4. The producer ids in the batches of a Produce are translated too, and a CRC that was right is
   right again.
"""

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from crc32c import crc32c

from compat.differential.steps import PREFIX
from ottla.wire.batch import CRC_COVERS_FROM, HEADER, HEADER_SIZE, LOG_OVERHEAD
from ottla.wire.message import NO_UUID, Part
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupResponse

P = TypeVar("P", bound=Part)

TOPIC_ID, PRODUCER_ID, SESSION_ID, MEMBER_ID = "topic", "producer", "session", "member"
KINDS = {
    "topic_id": TOPIC_ID,
    "producer_id": PRODUCER_ID,
    "v3_and_below_producer_id": PRODUCER_ID,
    "ongoing_txn_producer_id": PRODUCER_ID,
    "producer_id_filters": PRODUCER_ID,
    "session_id": SESSION_ID,
    "member_id": MEMBER_ID,
    "leader": MEMBER_ID,
}
NO_ID: dict[str, tuple[object, ...]] = {
    TOPIC_ID: (NO_UUID,),
    PRODUCER_ID: (-1, 0),
    SESSION_ID: (0,),
    MEMBER_ID: ("", None),
}
FIRST_PRODUCER_ID = 10_000_000_000
FIRST_SESSION_ID = 1_000_000
UNKNOWN_MEMBER = "#unknown"
"""A member that no reply of its own has named yet."""
PLACES = 1_000
"""More ids than one reply has."""


def rewrite(part: P, change: Callable[[str, Any], Any]) -> P:
    """A copy of a message with each plain value changed by its field's name."""

    def value_of(name: str, value: Any) -> Any:
        if isinstance(value, Part):
            return rewrite(value, change)
        if isinstance(value, list):
            return [value_of(name, item) for item in value]
        return change(name, value)

    fields = {name: value_of(name, getattr(part, name)) for name in part.__struct_fields__}
    return type(part)(**fields)


class Names:
    """The ids of one broker in one round."""

    def __init__(self, prefix: str) -> None:
        assert len(prefix) == len(PREFIX)
        self.prefix = prefix
        self._real: dict[tuple[str, object], Any] = {}
        self._canonical: dict[tuple[str, object], Any] = {}

    def real(self, message: P) -> P:
        """A canonical request as this broker gets it."""
        return rewrite(message, self._to_real)

    def canonical(self, message: P, step: int) -> P:
        """This broker's reply to a step, in canonical form."""
        made: dict[str, int] = {}

        def change(name: str, value: Any) -> Any:
            value = self._prefixed(value, self.prefix, PREFIX)
            kind = KINDS.get(name)
            if kind is None or value in NO_ID[kind]:
                return value
            if kind == MEMBER_ID:
                if value.startswith(PREFIX):
                    return value
                # Tables of members have no order, so they give no names.
                return self._canonical.get((kind, value), UNKNOWN_MEMBER)
            return self._named(kind, value, step, made)

        return rewrite(message, change)

    def meet(self, message: Part, step: int) -> None:
        """Take notice of the id that a reply gives to the member that asked."""
        if not isinstance(message, JoinGroupResponse | ConsumerGroupHeartbeatResponse):
            return
        if message.member_id and not message.member_id.startswith(self.prefix):
            self._named(MEMBER_ID, message.member_id, step, {})

    def producer(self, real: int, step: int) -> int:
        """The canonical form of a producer id found in records."""
        return real if real < 0 else int(self._named(PRODUCER_ID, real, step, {}))

    def _named(self, kind: str, real: Any, step: int, made: dict[str, int]) -> Any:
        known = self._canonical.get((kind, real))
        if known is not None:
            return known
        place = made[kind] = made.get(kind, 0) + 1
        new = _canonical_id(kind, step * PLACES + place)
        self._canonical[kind, real] = new
        self._real[kind, new] = real
        return new

    def _to_real(self, name: str, value: Any) -> Any:
        if name == "records" and value is not None:
            return self._real_batches(value)
        value = self._prefixed(value, PREFIX, self.prefix)
        kind = KINDS.get(name)
        if kind is None or value in NO_ID[kind] or (kind, value) in self._real:
            return value if kind is None else self._real.get((kind, value), value)
        # No reply had it: it is its own name.
        self._canonical.setdefault((kind, value), value)
        return value

    def _prefixed(self, value: Any, old: str, new: str) -> Any:
        if isinstance(value, str):
            return value.replace(old, new)
        if isinstance(value, bytes) and len(value) < HEADER_SIZE * 8:
            return value.replace(old.encode(), new.encode())
        return value

    def _real_batches(self, records: bytes) -> bytes:
        """Batches with the producer ids of this broker; what is no batch stays as it is."""
        data = bytearray(records)
        at = 0
        while at + HEADER_SIZE <= len(data):
            fields = list(HEADER.unpack_from(data, at))
            size = fields[1] + LOG_OVERHEAD
            if size < HEADER_SIZE:
                break
            real = self._real.get((PRODUCER_ID, fields[9]))
            if real is not None:
                covered = slice(at + CRC_COVERS_FROM, at + size)
                was_right = crc32c(data[covered]) == fields[4]
                fields[9] = real
                HEADER.pack_into(data, at, *fields)
                if was_right:
                    fields[4] = crc32c(data[covered])
                    HEADER.pack_into(data, at, *fields)
            at += size
        return bytes(data)


def _canonical_id(kind: str, number: int) -> Any:
    if kind == TOPIC_ID:
        return UUID(int=number)
    if kind == PRODUCER_ID:
        return FIRST_PRODUCER_ID + number
    if kind == SESSION_ID:
        return FIRST_SESSION_ID + number
    return f"#{number}"
