"""DescribeDelegationToken (API key 41).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class DescribeDelegationTokenOwner(Part, kw_only=True):
    """Part of DescribeDelegationTokenRequest."""

    principal_type: str = ""
    principal_name: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("principal_type", "string", "1+"),
        Field("principal_name", "string", "1+"),
    )


class DescribeDelegationTokenRequest(Message, kw_only=True):
    """Versions 1 to 3."""

    API_KEY: ClassVar[int] = 41
    VERSIONS: ClassVar[tuple[int, int]] = (1, 3)
    FLEXIBLE_FROM: ClassVar[int] = 2

    owners: list[DescribeDelegationTokenOwner] | None = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("owners", DescribeDelegationTokenOwner, "1+", array=True, nullable="1+"),
    )


class DescribedDelegationTokenRenewer(Part, kw_only=True):
    """Part of DescribeDelegationTokenResponse."""

    principal_type: str = ""
    principal_name: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("principal_type", "string", "1+"),
        Field("principal_name", "string", "1+"),
    )


class DescribedDelegationToken(Part, kw_only=True):
    """Part of DescribeDelegationTokenResponse."""

    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp: int = 0
    expiry_timestamp: int = 0
    max_timestamp: int = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("principal_type", "string", "1+"),
        Field("principal_name", "string", "1+"),
        Field("token_requester_principal_type", "string", "3+"),
        Field("token_requester_principal_name", "string", "3+"),
        Field("issue_timestamp", "int64", "1+"),
        Field("expiry_timestamp", "int64", "1+"),
        Field("max_timestamp", "int64", "1+"),
        Field("token_id", "string", "1+"),
        Field("hmac", "bytes", "1+"),
        Field("renewers", DescribedDelegationTokenRenewer, "1+", array=True),
    )


class DescribeDelegationTokenResponse(Message, kw_only=True):
    """Versions 1 to 3."""

    API_KEY: ClassVar[int] = 41
    VERSIONS: ClassVar[tuple[int, int]] = (1, 3)
    FLEXIBLE_FROM: ClassVar[int] = 2

    error_code: int = 0
    tokens: list[DescribedDelegationToken] = field(default_factory=list)
    throttle_time_ms: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "1+"),
        Field("tokens", DescribedDelegationToken, "1+", array=True),
        Field("throttle_time_ms", "int32", "1+"),
    )
