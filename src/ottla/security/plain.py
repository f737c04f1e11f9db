"""SASL/PLAIN (RFC 4616): `[authzid] NUL user NUL password`. Pure.

Rules kept here:
1. A wrong password and an unknown user give the same text, after the same work.
2. The authorization id is empty or the user, as in Kafka.
"""

from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from ottla.security.mechanism import LoginFailed, Success

PLAIN: Final = "PLAIN"
INVALID: Final = "Authentication failed: Invalid username or password"
_NOBODY: Final = "\x00"
"""No password has this character: it separates the fields."""


class PlainServer:
    """The broker's side of one login."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def step(self, data: bytes) -> tuple[bytes, Success | None]:
        """Check the one message of the client."""
        try:
            fields = data.decode("utf-8").split("\x00")
        except UnicodeDecodeError:
            raise LoginFailed("Invalid SASL/PLAIN response: not UTF-8") from None
        if len(fields) != 3:
            raise LoginFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(fields)}")
        authorization, user, password = fields
        if not user:
            raise LoginFailed("Authentication failed: username not specified")
        if not password:
            raise LoginFailed("Authentication failed: password not specified")
        if not _same(password, self._passwords.get(user, _NOBODY)):
            raise LoginFailed(INVALID, "invalid username or password")
        if authorization not in ("", user):
            raise LoginFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        return b"", Success(user)


class PlainClient:
    """The client's side of one login."""

    def __init__(self, user: str, password: str) -> None:
        self._message = f"\x00{user}\x00{password}".encode()

    def first(self) -> bytes:
        """User and password."""
        return self._message

    def step(self, challenge: bytes) -> bytes | None:
        """There is nothing more to say."""
        return None


def _same(given: str, expected: str) -> bool:
    """Compare in a time that depends on neither length."""
    return compare_digest(sha256(given.encode()).digest(), sha256(expected.encode()).digest())
