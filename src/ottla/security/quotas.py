"""Client quotas: which one is a client's, and how long it has to wait. Pure.

Rules kept here:
1. Of several quotas the most specific one counts, in Kafka's order (KIP-55): user and client id,
   user and default client id, user, default user and client id, both defaults, default user, client
   id, default client id.
2. Who shares a quota: all connections of the user, of the client id, or of both, as the quota names
   them. A default applies to each user or client id for itself.
3. A quota of r a second in `quota.window.num` samples of `quota.window.size.seconds` is a bucket of
   r * (num - 1) * size that fills with r a second. It may be overdrawn; what is missing, divided by
   r, is how long the client is throttled.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from ottla.wire.errors import ErrorCode, KafkaError

PRODUCE: Final = "producer_byte_rate"
CONSUME: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"
OF_CLIENTS: Final = (PRODUCE, CONSUME, REQUEST, MUTATION)
WHOLE: Final = (PRODUCE, CONSUME, CONNECTION)
"""Keys whose values have no fraction."""
LARGEST: Final[Mapping[str, tuple[float, str]]] = {
    PRODUCE: (2.0**63, "a LONG"),
    CONSUME: (2.0**63, "a LONG"),
    CONNECTION: (2.0**31 - 1, "an INT"),
}

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
DEFAULT: Final = ""
"""The name of an entity that stands for all of its type that have no quota of their own."""
MOST_BUCKETS: Final = 10_000
LONGEST_KEPT: Final = 255
"""Clients choose their ids: a longer one is kept as its hash."""


class Entity(NamedTuple):
    """Whom a quota is for; None: the type is not named, DEFAULT: its default."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """A checked entity of types and names (None: the default); raises KafkaError."""
    found: dict[str, str] = {}
    for kind, name in parts:
        if kind in found:
            raise _invalid(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        found[kind] = DEFAULT if name is None else name
    if not found:
        raise _invalid("Invalid empty client quota entity")
    if IP in found and len(found) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId"
        )
    return Entity(found.get(USER), found.get(CLIENT_ID), found.get(IP))


def parts_of(entity: Entity) -> list[tuple[str, str | None]]:
    """The types and names of an entity, the default's name being None."""
    named = ((USER, entity.user), (CLIENT_ID, entity.client_id), (IP, entity.ip))
    return [(kind, name or None) for kind, name in named if name is not None]


def check_value(entity: Entity, key: str, value: float) -> None:
    """Refuse a quota that cannot be; raises KafkaError."""
    if key not in (OF_CLIENTS if entity.ip is None else (CONNECTION,)):
        raise _invalid(f"Invalid configuration key {key}")
    if not value > 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if key in WHOLE:
        most, kind = LARGEST[key]
        if value > most:
            raise _invalid(f"Proposed value for {key} is too large for {kind}.")
        if value % 1.0 > 1e-6:
            raise _invalid(f"{key} cannot be a fractional value.")


class Bucket:
    """How much of a quota is left."""

    __slots__ = ("_at", "_left", "capacity", "rate")

    def __init__(self, rate: float, seconds: float, now: float) -> None:
        """`seconds`: how much of the rate may be used at once."""
        self.rate = rate
        self.capacity = rate * seconds
        self._left = self.capacity
        self._at = now

    def configured(self, rate: float, seconds: float, now: float) -> None:
        """The quota changed; debts remain."""
        if rate != self.rate:
            self._fill(now)
            self.rate, self.capacity = rate, rate * seconds
            self._left = min(self._left, self.capacity)

    def take(self, amount: float, now: float) -> float:
        """Use some; for how many seconds the client is to be throttled."""
        left = self._left + (now - self._at) * self.rate
        if left > self.capacity:
            left = self.capacity
        left -= amount
        self._left = left
        self._at = now
        return 0.0 if left >= 0 else -left / self.rate

    def wait(self, now: float) -> float:
        """For how many seconds a client has to wait that uses nothing now."""
        return self.take(0, now)

    def give_back(self, amount: float) -> None:
        """It was not used after all."""
        self._left += amount

    def is_full(self, now: float) -> bool:
        """Whether forgetting it makes no difference."""
        self._fill(now)
        return self._left >= self.capacity

    def _fill(self, now: float) -> None:
        self._left = min(self.capacity, self._left + (now - self._at) * self.rate)
        self._at = now


class Quotas:
    """All quotas of the cluster, and what is left of them on this broker."""

    __slots__ = ("_buckets", "_drop_at", "_entries", "_found", "_seconds", "is_empty")

    def __init__(self, seconds: float) -> None:
        """`seconds`: (`quota.window.num` - 1) * `quota.window.size.seconds`."""
        self._seconds = seconds
        self._entries: Mapping[Entity, Mapping[str, float]] = {}
        self._buckets: dict[tuple[str, str, str], Bucket] = {}
        self._found: dict[tuple[str, str, str], Bucket | None] = {}
        self._drop_at = MOST_BUCKETS
        self.is_empty = True

    def configured(self, entries: Mapping[Entity, Mapping[str, float]]) -> None:
        """The cluster's quotas are these now."""
        self._entries = entries
        self._found.clear()
        self.is_empty = not entries

    def find(self, key: str, user: str, client_id: str, now: float) -> Bucket | None:
        """What is left of a client's quota; None where it has none."""
        if len(client_id) > LONGEST_KEPT:
            return self._find(key, user, client_id, now)
        place = (key, user, client_id)
        if place in self._found:
            return self._found[place]
        if len(self._found) >= MOST_BUCKETS:
            self._found.clear()
        bucket = self._found[place] = self._find(key, user, client_id, now)
        return bucket

    def limit(self, key: str, user: str, client_id: str) -> tuple[float, tuple[str, str]] | None:
        """The quota that counts for a client, and who shares it."""
        for entity, shared_by in (
            (Entity(user, client_id), (user, client_id)),
            (Entity(user, DEFAULT), (user, client_id)),
            (Entity(user), (user, "")),
            (Entity(DEFAULT, client_id), (user, client_id)),
            (Entity(DEFAULT, DEFAULT), (user, client_id)),
            (Entity(DEFAULT), (user, "")),
            (Entity(None, client_id), ("", client_id)),
            (Entity(None, DEFAULT), ("", client_id)),
        ):
            quota = self._entries.get(entity)
            if quota is not None and key in quota:
                return quota[key], shared_by
        return None

    def of_address(self, address: str, now: float) -> Bucket | None:
        """What is left of an address's rate of connections."""
        for name in (address, DEFAULT):
            quota = self._entries.get(Entity(ip=name))
            if quota is not None and CONNECTION in quota:
                return self._bucket(CONNECTION, quota[CONNECTION], (address, ""), now)
        return None

    def _find(self, key: str, user: str, client_id: str, now: float) -> Bucket | None:
        # A client without an id is not one whose id is empty: Kafka has no name for either.
        found = self.limit(key, user, client_id)
        return None if found is None else self._bucket(key, *found, now)

    def _bucket(self, key: str, rate: float, shared_by: tuple[str, str], now: float) -> Bucket:
        user, client_id = shared_by
        if len(client_id) > LONGEST_KEPT:
            client_id = f"sha256 {sha256(client_id.encode()).hexdigest()}"
        place = (key, user, client_id)
        bucket = self._buckets.get(place)
        if bucket is None:
            if len(self._buckets) >= self._drop_at:
                self._drop_full(now)
            bucket = self._buckets[place] = Bucket(rate, self._seconds, now)
        else:
            bucket.configured(rate, self._seconds, now)
        return bucket

    def _drop_full(self, now: float) -> None:
        self._found.clear()
        self._buckets = {
            place: bucket for place, bucket in self._buckets.items() if not bucket.is_full(now)
        }
        # Where most are in use it is not worth while to look again for each new one.
        self._drop_at = max(MOST_BUCKETS, 2 * len(self._buckets))


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
