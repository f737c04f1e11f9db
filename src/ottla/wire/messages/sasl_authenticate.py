"""SaslAuthenticate (API key 36).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from ottla.wire.message import Field, Message


class SaslAuthenticateRequest(Message, kw_only=True):
    """Versions 0 to 2."""

    API_KEY: ClassVar[int] = 36
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int] = 2

    auth_bytes: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("auth_bytes", "bytes", "0+"),)


class SaslAuthenticateResponse(Message, kw_only=True):
    """Versions 0 to 2."""

    API_KEY: ClassVar[int] = 36
    VERSIONS: ClassVar[tuple[int, int]] = (0, 2)
    FLEXIBLE_FROM: ClassVar[int] = 2

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("auth_bytes", "bytes", "0+"),
        Field("session_lifetime_ms", "int64", "1+"),
    )
