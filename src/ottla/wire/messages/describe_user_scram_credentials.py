"""DescribeUserScramCredentials (API key 50).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class UserName(Part, kw_only=True):
    """Part of DescribeUserScramCredentialsRequest."""

    name: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("name", "string", "0+"),)


class DescribeUserScramCredentialsRequest(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 50
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    users: list[UserName] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("users", UserName, "0+", array=True, nullable="0+"),
    )


class CredentialInfo(Part, kw_only=True):
    """Part of DescribeUserScramCredentialsResponse."""

    mechanism: int = 0
    iterations: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("mechanism", "int8", "0+"),
        Field("iterations", "int32", "0+"),
    )


class DescribeUserScramCredentialsResult(Part, kw_only=True):
    """Part of DescribeUserScramCredentialsResponse."""

    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("user", "string", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("credential_infos", CredentialInfo, "0+", array=True),
    )


class DescribeUserScramCredentialsResponse(Message, kw_only=True):
    """Version 0."""

    API_KEY: ClassVar[int] = 50
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = 0

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("error_message", "string", "0+", nullable="0+"),
        Field("results", DescribeUserScramCredentialsResult, "0+", array=True),
    )
