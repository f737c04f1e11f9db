"""The client quotas in force on this broker, looked up by user and client id."""

from __future__ import annotations

from time import monotonic
from typing import Protocol

from ottla.config import BrokerConfig
from ottla.metadata.image import Image
from ottla.security.authorizer import Access
from ottla.security.quotas import MUTATION, Bucket, Entity, Quotas


class Asking(Protocol):
    """Who has sent a request."""

    @property
    def access(self) -> Access:
        """What the client may do, and who it is."""

    @property
    def client_id(self) -> str | None:
        """What the client calls itself."""


class ClientQuotas:
    """What is left of each client's quotas."""

    __slots__ = ("_clients", "_mutations", "is_empty")

    def __init__(self, config: BrokerConfig) -> None:
        self._clients = Quotas(_burst(config.quota_window_num, config.quota_window_size_seconds))
        self._mutations = Quotas(
            _burst(config.controller_quota_window_num, config.controller_quota_window_size_seconds)
        )
        self.is_empty = True
        """Looked at for every request."""

    def learned(self, image: Image) -> None:
        """The quotas of the metadata are these now."""
        entries = {
            Entity(each.user, each.client_id, each.ip): each.values
            for each in image.quotas.values()
        }
        self._clients.configured(entries)
        self._mutations.configured(entries)
        self.is_empty = not entries

    def take(self, key: str, request: Asking, amount: float) -> float:
        """Charge a client; for how many seconds it has to wait."""
        now = monotonic()
        bucket = self._bucket(key, request, now)
        return 0.0 if bucket is None else bucket.take(amount, now)

    def wait(self, key: str, request: Asking) -> float:
        """For how many seconds a client has to wait already."""
        return self.take(key, request, 0)

    def most_at_once(self, key: str, request: Asking) -> float | None:
        """How much of its quota a client may use at once; None where it has no quota.

        Kafka's `maxValueInQuotaWindow`.
        """
        bucket = self._bucket(key, request, monotonic())
        return None if bucket is None else bucket.capacity

    def connected(self, address: str) -> float:
        """A client connects; for how many seconds it has to wait."""
        now = monotonic()
        bucket = None if self.is_empty else self._clients.of_address(address, now)
        return 0.0 if bucket is None else bucket.take(1, now)

    def _bucket(self, key: str, request: Asking, now: float) -> Bucket | None:
        if self.is_empty:
            return None
        quotas = self._mutations if key == MUTATION else self._clients
        return quotas.find(key, request.access.principal.name, request.client_id or "", now)


def _burst(samples: int, seconds: int) -> float:
    """For how many seconds' worth a client may use its quota at once."""
    return max(1, samples - 1) * seconds
