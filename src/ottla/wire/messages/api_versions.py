"""ApiVersions (API key 18).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class ApiVersionsRequest(Message, kw_only=True):
    """Versions 0 to 4."""

    API_KEY: ClassVar[int] = 18
    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int] = 3

    client_software_name: str = ""
    client_software_version: str = ""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("client_software_name", "string", "3+"),
        Field("client_software_version", "string", "3+"),
    )


class ApiVersion(Part, kw_only=True):
    """Part of ApiVersionsResponse."""

    api_key: int = 0
    min_version: int = 0
    max_version: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("api_key", "int16", "0+"),
        Field("min_version", "int16", "0+"),
        Field("max_version", "int16", "0+"),
    )


class SupportedFeatureKey(Part, kw_only=True):
    """Part of ApiVersionsResponse."""

    name: str = ""
    min_version: int = 0
    max_version: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "3+"),
        Field("min_version", "int16", "3+"),
        Field("max_version", "int16", "3+"),
    )


class FinalizedFeatureKey(Part, kw_only=True):
    """Part of ApiVersionsResponse."""

    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "3+"),
        Field("max_version_level", "int16", "3+"),
        Field("min_version_level", "int16", "3+"),
    )


class ApiVersionsResponse(Message, kw_only=True):
    """Versions 0 to 4."""

    API_KEY: ClassVar[int] = 18
    VERSIONS: ClassVar[tuple[int, int]] = (0, 4)
    FLEXIBLE_FROM: ClassVar[int] = 3

    error_code: int = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: int = 0
    supported_features: list[SupportedFeatureKey] = field(default_factory=list)
    finalized_features_epoch: int = -1
    finalized_features: list[FinalizedFeatureKey] = field(default_factory=list)
    zk_migration_ready: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("error_code", "int16", "0+"),
        Field("api_keys", ApiVersion, "0+", array=True),
        Field("throttle_time_ms", "int32", "1+"),
        Field("supported_features", SupportedFeatureKey, "3+", array=True, tag=0),
        Field("finalized_features_epoch", "int64", "3+", tag=1),
        Field("finalized_features", FinalizedFeatureKey, "3+", array=True, tag=2),
        Field("zk_migration_ready", "bool", "3+", tag=3),
    )
