"""How long a broker may be sure that no other has replaced it. Pure: times are passed in.

The store ends a broker's session when it got no request for the session's timeout. It got the last
answered request no earlier than the broker sent it: so until then plus the timeout no other leader
can have been elected because this broker seemed dead. A third of the timeout is a margin for the
time between a check and its use, and for clocks that differ in speed.

Rules kept here:
1. The lease counts from the *sending* of a request, and only once it was answered.
2. It ends with the session; a new session has a lease of its own.
3. Times are of a clock that also runs while the machine sleeps (CLOCK_BOOTTIME).

What needs the lease: acknowledging acks=0 and acks=1, and the answers of coordinators. What does
not: acks=all and reads, which are held by the high watermark.
"""


class Lease:
    """What a broker knows of its own session."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: float | None = None

    def answered(self, sent_at: float, timeout: float) -> None:
        """The store has answered a request; `timeout` is the one that it granted."""
        until = sent_at + timeout * 2 / 3
        if self._until is None or until > self._until:
            self._until = until

    def ended(self) -> None:
        """The session is over, or a new one has not been answered yet."""
        self._until = None

    def held(self, now: float) -> bool:
        """Whether this broker may still answer on its own."""
        return self._until is not None and now < self._until

    def left(self, now: float) -> float:
        """How long it still may."""
        return 0.0 if self._until is None else max(0.0, self._until - now)
