"""What a `ServerProtocol` needs: a handler that answers requests, and a shell with the socket."""

from __future__ import annotations

from typing import Protocol

from ottla.later import Later
from ottla.security.principal import Principal
from ottla.wire.headers import RequestHeader
from ottla.wire.reply import Parts

Answer = Parts | Later[Parts | None] | None
"""A reply, now or later; None where there is none to send."""


class RequestHandler(Protocol):
    """Answers the requests."""

    @property
    def largest_request(self) -> int:
        """The largest frame a client may send."""

    def now(self) -> float:
        """The time in seconds, to measure how long a request took."""

    def handle(self, header: RequestHeader, frame: memoryview) -> Answer:
        """The reply, now or later, or None where there is none to send (acks=0).

        Raises UnanswerableError where only a closed connection is an answer.
        """

    def answered(self, api_key: int, started: float, size: int) -> None:
        """A reply of this many bytes is on its way (0: none is sent)."""

    def authenticated(self, principal: Principal, *, via_token: bool = False) -> None:
        """The client is known by name from now on; `via_token`: by a delegation token."""


class Shell(Protocol):
    """Owns the socket."""

    def wake_soon(self) -> None:
        """Call `wake` in the next turn of the loop."""

    def reply_ready(self) -> None:
        """A reply that was waited for is there; called in the middle of something else."""

    def task_done(self) -> None:
        """The same, where nothing else is going on."""

    def reply_failed(self, error: BaseException) -> None:
        """There is no reply where one is due: call `refuse_input`, and the connection will end."""

    def login_done(self) -> None:
        """The client has authenticated."""

    def login_failed(self, problem: str, answer: Later[Parts | None], reply: Parts | None) -> None:
        """It has failed to: call `refuse_input`, and after a while complete the answer."""

    def room_freed(self) -> None:
        """There may be room for a large frame now: go on, but not at once."""
