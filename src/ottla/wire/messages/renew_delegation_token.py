"""RenewDelegationToken (API key 39).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from ottla.wire.message import Field, Message


class RenewDelegationTokenRequest(Message, kw_only=True):
    """Versions 1 to 2."""

    API_KEY: ClassVar[int] = 39
    VERSIONS: ClassVar[tuple[int, int]] = (1, 2)
    FLEXIBLE_FROM: ClassVar[int] = 2

    hmac: bytes = b""
    renew_period_ms: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("hmac", "bytes", "1+"),
        Field("renew_period_ms", "int64", "1+"),
    )


class RenewDelegationTokenResponse(Message, kw_only=True):
    """Versions 1 to 2."""

    API_KEY: ClassVar[int] = 39
    VERSIONS: ClassVar[tuple[int, int]] = (1, 2)
    FLEXIBLE_FROM: ClassVar[int] = 2

    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "1+"),
        Field("expiry_timestamp_ms", "int64", "1+"),
        Field("throttle_time_ms", "int32", "1+"),
    )
