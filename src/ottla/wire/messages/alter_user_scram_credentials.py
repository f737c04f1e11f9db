"""AlterUserScramCredentials (API key 51).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class ScramCredentialDeletion(Part, kw_only=True):
    """Part of AlterUserScramCredentialsRequest."""

    name: str = ""
    mechanism: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("mechanism", "int8", "0+"),
    )


class ScramCredentialUpsertion(Part, kw_only=True):
    """Part of AlterUserScramCredentialsRequest."""

    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("mechanism", "int8", "0+"),
        Field("iterations", "int32", "0+"),
        Field("salt", "bytes", "0+"),
        Field("salted_password", "bytes", "0+"),
    )


class AlterUserScramCredentialsRequest(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 51
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("deletions", ScramCredentialDeletion, "0+", array=True),
        Field("upsertions", ScramCredentialUpsertion, "0+", array=True),
    )


class AlterUserScramCredentialsResult(Part, kw_only=True):
    """Part of AlterUserScramCredentialsResponse."""

    user: str = ""
    error_code: int = 0
    error_message: str | None = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("user", "string", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
    )


class AlterUserScramCredentialsResponse(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 51
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    throttle_time_ms: int = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("results", AlterUserScramCredentialsResult, "0+", array=True),
    )
