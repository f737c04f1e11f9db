"""PushTelemetry (API key 72).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar
from uuid import UUID

from ottla.wire.message import NO_UUID, Field, Message


class PushTelemetryRequest(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 72
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    client_instance_id: UUID = NO_UUID
    subscription_id: int = 0
    terminating: bool = False
    compression_type: int = 0
    metrics: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("client_instance_id", "uuid", "0+"),
        Field("subscription_id", "int32", "0+"),
        Field("terminating", "bool", "0+"),
        Field("compression_type", "int8", "0+"),
        Field("metrics", "bytes", "0+"),
    )


class PushTelemetryResponse(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 72
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    throttle_time_ms: int = 0
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
    )
