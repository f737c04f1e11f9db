"""SASL/OAUTHBEARER (RFC 7628): a bearer token instead of a password. Pure; tokens are judged by a
validator that is passed in (`jwt.py`).

Rules kept here:
1. `n,[a=user],^Aauth=Bearer TOKEN^A[name=value^A...]^A` is the client's only message.
2. A refused token takes two steps: the server answers JSON with a status, the client answers one
   byte (0x01), then the login fails. The reason is in the log, not in the answer.
"""

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from ottla.security.mechanism import LoginFailed, Success

OAUTHBEARER: Final = "OAUTHBEARER"
REFUSED: Final = b'{"status":"invalid_token"}'
_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authzid>(?:[^,=\x00\x01]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7E \t\r\n]*\x01)+)\x01"
)


class BearerToken(Struct, frozen=True):
    """What a valid token says."""

    user: str
    expires_ms: int


class TokenRefused(Exception):  # noqa: N818 (it names what happened)
    """The token is not valid; the text is for the log and never has the token in it."""


Validate = Callable[[str], BearerToken]
"""Judges a token; raises TokenRefused."""


class OauthBearerServer:
    """The broker's side of one login."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refused = ""

    def step(self, data: bytes) -> tuple[bytes, Success | None]:
        """Judge the token, or end a login whose token was refused."""
        if self._refused:
            raise LoginFailed('{"status":"invalid_token"}', self._refused)
        first = _FIRST.fullmatch(data.decode("utf-8", "replace"))
        if first is None:
            raise LoginFailed("Invalid OAUTHBEARER client first message")
        pairs = dict(pair.split("=", 1) for pair in first["pairs"].split("\x01") if pair)
        scheme, _, text = pairs.get("auth", "").partition(" ")
        if scheme.lower() != "bearer" or not text.strip():
            raise LoginFailed("Invalid OAUTHBEARER client first message: 'auth' not specified")
        try:
            token = self._validate(text.strip())
        except TokenRefused as problem:
            self._refused = str(problem) or "invalid token"
            return REFUSED, None
        if first["authzid"] not in (None, token.user):
            raise LoginFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from the token's principal name"
            )
        return b"", Success(token.user, token.expires_ms)


class OauthBearerClient:
    """The client's side of one login."""

    def __init__(self, token: str) -> None:
        self._token = token

    def first(self) -> bytes:
        """The token."""
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def step(self, challenge: bytes) -> bytes | None:
        """Only a refusal has a challenge; it is acknowledged, and then the login fails."""
        return b"\x01" if challenge else None
