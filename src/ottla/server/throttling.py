"""Client quotas for one connection: what a request costs, and how long its client has to wait.

Rules kept here (KIP-13, KIP-124, KIP-219):
1. A request is answered at once, with `throttle_time_ms`; then nothing more of its connection is
   handled until that time is over.
2. Produce is charged by the bytes of the request, Fetch by those of its answer. A Fetch of a client
   that is over its quota gets an empty answer, for which nothing is charged.
3. The time in which a request is handled is charged to `request_percentage`; what only brokers send
   is not. It throttles for a second at most.
4. `throttle_time_ms` is written into the encoded reply, and only where it is above 0.
"""

from __future__ import annotations

import sys
from functools import cache
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Final

from ottla.api.registry import Request
from ottla.later import Later
from ottla.security.operations import Operation, ResourceType
from ottla.security.quotas import CONSUME, PRODUCE, REQUEST
from ottla.wire import fetch as fetch_wire
from ottla.wire.apis import FIRST_FLEXIBLE, ApiKey
from ottla.wire.reply import Parts

if TYPE_CHECKING:
    from ottla.broker.metadata.client_quotas import ClientQuotas

LONGEST_FOR_REQUESTS: Final = 1.0
_BEFORE_TAGS: Final = -5
"""The last field of a flexible reply without tagged fields, if it is an int32."""
_INT32: Final = Struct(">i")
_OF_BROKERS: Final = frozenset({ApiKey.WRITE_TXN_MARKERS})
_FIRST_ADDED_BY_BROKERS: Final = 4


class Throttle:
    """What one connection has to wait for."""

    __slots__ = ("_quotas", "mutes", "until")

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas
        self.until = 0.0
        """When the next request may be handled, on the clock of `perf_counter`."""
        self.mutes = False
        """Whether the connection is muted."""

    def refused_fetch(self, request: Request, frame: memoryview, at: int) -> Parts | None:
        """The empty answer to a Fetch of a client that is over its quota."""
        if request.key != ApiKey.FETCH:
            return None
        wait = self._quotas.wait(CONSUME, request)
        if wait <= 0:
            return None
        asked = fetch_wire.read_request(frame, at, request.version)
        if asked.replica_id >= 0:
            return None
        self._mute(wait)
        session = asked.session_id if asked.session_epoch > 0 else 0
        return fetch_wire.response(
            request.version, [], session_id=session, throttle_time_ms=_milliseconds(wait)
        )

    def charge(
        self, request: Request, size: int, seconds: float, parts: Parts | None
    ) -> Parts | None:
        """Charge a request for its size and handling time; its reply, with the throttle time."""
        wait = 0.0
        if request.key == ApiKey.PRODUCE:
            wait = self._quotas.take(PRODUCE, request, size)
        elif request.key == ApiKey.FETCH and parts is not None:
            wait = self._quotas.take(CONSUME, request, sum(map(_size, parts)))
        if parts is not None and not _is_of_brokers(request):
            busy = self._quotas.take(REQUEST, request, seconds * 100)
            wait = max(wait, min(busy, LONGEST_FOR_REQUESTS))
        if wait <= 0:
            return parts
        self._mute(wait)
        return None if parts is None else with_throttle(request, parts, _milliseconds(wait))

    def charge_later(
        self, request: Request, size: int, seconds: float, later: Later[Parts | None]
    ) -> Later[Parts | None]:
        """The same for a reply that is not there yet."""
        return later.map(lambda parts: self.charge(request, size, seconds, parts))

    def _mute(self, wait: float) -> None:
        self.until = max(self.until, perf_counter() + wait)


def with_throttle(request: Request, parts: Parts, milliseconds: int) -> Parts:
    """The reply with `throttle_time_ms` in its place, where that is known."""
    place = _place(request.key, request.version)
    if place is None:
        return parts
    number = 0 if place >= 0 else len(parts) - 1
    part = parts[number]
    if not isinstance(part, bytes):
        return parts
    changed = bytearray(part)
    if place == _BEFORE_TAGS and changed[-1]:
        return parts  # tagged fields follow: they come with errors only
    _INT32.pack_into(changed, place if place >= 0 else len(changed) + place, milliseconds)
    return (*parts[:number], bytes(changed), *parts[number + 1 :])


@cache
def _place(key: int, version: int) -> int | None:
    """Where the throttle time is in a reply: from its beginning, or, below 0, from its end."""
    if key == ApiKey.PRODUCE:
        return _BEFORE_TAGS if version >= FIRST_FLEXIBLE[ApiKey.PRODUCE] else -4
    name = ApiKey(key).name.lower()
    module = sys.modules.get(f"ottla.wire.messages.{name}")
    for value in vars(module).values() if module is not None else ():
        fields = getattr(value, "FIELDS", ())
        if getattr(value, "__name__", "").endswith("Response") and fields:
            first = fields[0]
            if first.name == "throttle_time_ms" and first.is_in(version):
                return 0
    return None


def _is_of_brokers(request: Request) -> bool:
    """Whether only brokers send such a request."""
    if request.key in _OF_BROKERS:
        return True
    if request.key == ApiKey.ADD_PARTITIONS_TO_TXN:
        return request.version >= _FIRST_ADDED_BY_BROKERS
    return request.access.is_limited and request.access.allows(
        Operation.CLUSTER_ACTION, ResourceType.CLUSTER
    )


def _size(part: object) -> int:
    return len(part) if isinstance(part, bytes) else int(part.size)  # type: ignore[attr-defined]  # a stretch of a file


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
