"""WriteTxnMarkers (API key 27).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class WritableTxnMarkerTopic(Part, kw_only=True):
    """Part of WriteTxnMarkersRequest."""

    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "1+"),
        Field("partition_indexes", "int32", "1+", array=True),
    )


class WritableTxnMarker(Part, kw_only=True):
    """Part of WriteTxnMarkersRequest."""

    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: int = 0
    transaction_version: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("producer_id", "int64", "1+"),
        Field("producer_epoch", "int16", "1+"),
        Field("transaction_result", "bool", "1+"),
        Field("topics", WritableTxnMarkerTopic, "1+", array=True),
        Field("coordinator_epoch", "int32", "1+"),
        Field("transaction_version", "int8", "2+"),
    )


class WriteTxnMarkersRequest(Message, kw_only=True):
    """Versions 1 to 2."""

    API_KEY: ClassVar[int] = 27
    VERSIONS: ClassVar[tuple[int, int]] = (1, 2)
    FLEXIBLE_FROM: ClassVar[int] = 1

    markers: list[WritableTxnMarker] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (Field("markers", WritableTxnMarker, "1+", array=True),)


class WritableTxnMarkerPartitionResult(Part, kw_only=True):
    """Part of WriteTxnMarkersResponse."""

    partition_index: int = 0
    error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "1+"),
        Field("error_code", "int16", "1+"),
    )


class WritableTxnMarkerTopicResult(Part, kw_only=True):
    """Part of WriteTxnMarkersResponse."""

    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "1+"),
        Field("partitions", WritableTxnMarkerPartitionResult, "1+", array=True),
    )


class WritableTxnMarkerResult(Part, kw_only=True):
    """Part of WriteTxnMarkersResponse."""

    producer_id: int = 0
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("producer_id", "int64", "1+"),
        Field("topics", WritableTxnMarkerTopicResult, "1+", array=True),
    )


class WriteTxnMarkersResponse(Message, kw_only=True):
    """Versions 1 to 2."""

    API_KEY: ClassVar[int] = 27
    VERSIONS: ClassVar[tuple[int, int]] = (1, 2)
    FLEXIBLE_FROM: ClassVar[int] = 1

    markers: list[WritableTxnMarkerResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("markers", WritableTxnMarkerResult, "1+", array=True),
    )
