"""UnregisterBroker (API key 64).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from ottla.wire.message import Field, Message


class UnregisterBrokerRequest(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 64
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    broker_id: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("broker_id", "int32", "0+"),)


class UnregisterBrokerResponse(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 64
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )
