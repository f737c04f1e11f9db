"""The place of a reply among those that a connection waits for.

Rule kept here: it has the reply, or the promise of one, never both.
"""

from ottla.api.registry import Endpoint, Parts, Pending


class Slot:
    """One such place, with what is needed to send the reply from it."""

    __slots__ = (
        "correlation_id",
        "endpoint",
        "flexible",
        "is_under_way",
        "parts",
        "pending",
        "started",
    )

    def __init__(
        self,
        endpoint: Endpoint,
        correlation_id: int,
        flexible: bool,
        started: float,
        pending: Pending | None = None,
        parts: Parts | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.correlation_id = correlation_id
        self.flexible = flexible
        self.started = started
        self.pending = pending
        self.parts = parts
        self.is_under_way = True
