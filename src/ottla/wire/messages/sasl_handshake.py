"""SaslHandshake (API key 17).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message


class SaslHandshakeRequest(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 17
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)

    mechanism: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("mechanism", "string", "0+"),)


class SaslHandshakeResponse(Message, kw_only=True):
    """Versions 0 to 1."""

    API_KEY: ClassVar[int] = 17
    VERSIONS: ClassVar[tuple[int, int]] = (0, 1)

    error_code: int = 0
    mechanisms: list[str] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("mechanisms", "string", "0+", array=True),
    )
