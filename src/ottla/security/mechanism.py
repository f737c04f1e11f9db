"""What a SASL mechanism is to the gate (`sasl.py`) and to a client. Pure."""

from typing import Protocol

from msgspec import Struct


class LoginFailed(Exception):  # noqa: N818 (it names what happened)
    """Authentication failed. `str` goes to the client; `reason` is for the log."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class Success(Struct, frozen=True):
    """The client is this user."""

    user: str
    expires_ms: int | None = None
    """When the credential ends, in milliseconds since 1970; None for never."""
    via_token: bool = False
    """The client logged in with a delegation token of that user."""


class ServerMechanism(Protocol):
    """One login. Each answer of the client is one step."""

    def step(self, data: bytes) -> tuple[bytes, Success | None]:
        """The next challenge, and the success if that was the last step; raises LoginFailed."""


class ClientMechanism(Protocol):
    """One login, as a client makes it."""

    def first(self) -> bytes:
        """The first message."""

    def step(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge, None where the login is complete; raises LoginFailed."""
