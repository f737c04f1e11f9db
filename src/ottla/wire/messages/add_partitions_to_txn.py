"""AddPartitionsToTxn (API key 24).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from msgspec import field

from ottla.wire.message import Field, Message, Part


class AddPartitionsToTxnTopic(Part, kw_only=True):
    """Part of AddPartitionsToTxnRequest."""

    name: str = ""
    partitions: list[int] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("partitions", "int32", "0+", array=True),
    )


class AddPartitionsToTxnTransaction(Part, kw_only=True):
    """Part of AddPartitionsToTxnRequest."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactional_id", "string", "4+"),
        Field("producer_id", "int64", "4+"),
        Field("producer_epoch", "int16", "4+"),
        Field("verify_only", "bool", "4+"),
        Field("topics", AddPartitionsToTxnTopic, "4+", array=True),
    )


class AddPartitionsToTxnRequest(Message, kw_only=True):
    """Versions 0 to 5."""

    API_KEY: ClassVar[int] = 24
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int] = 3

    v3_and_below_transactional_id: str = ""
    transactions: list[AddPartitionsToTxnTransaction] = field(default_factory=list)
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("v3_and_below_transactional_id", "string", "0-3"),
        Field("transactions", AddPartitionsToTxnTransaction, "4+", array=True),
        Field("v3_and_below_producer_id", "int64", "0-3"),
        Field("v3_and_below_producer_epoch", "int16", "0-3"),
        Field("v3_and_below_topics", AddPartitionsToTxnTopic, "0-3", array=True),
    )


class AddPartitionsToTxnPartitionResult(Part, kw_only=True):
    """Part of AddPartitionsToTxnResponse."""

    partition_index: int = 0
    partition_error_code: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("partition_index", "int32", "0+"),
        Field("partition_error_code", "int16", "0+"),
    )


class AddPartitionsToTxnTopicResult(Part, kw_only=True):
    """Part of AddPartitionsToTxnResponse."""

    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("name", "string", "0+"),
        Field("results_by_partition", AddPartitionsToTxnPartitionResult, "0+", array=True),
    )


class AddPartitionsToTxnResult(Part, kw_only=True):
    """Part of AddPartitionsToTxnResponse."""

    transactional_id: str = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactional_id", "string", "4+"),
        Field("topic_results", AddPartitionsToTxnTopicResult, "4+", array=True),
    )


class AddPartitionsToTxnResponse(Message, kw_only=True):
    """Versions 0 to 5."""

    API_KEY: ClassVar[int] = 24
    VERSIONS: ClassVar[tuple[int, int]] = (0, 5)
    FLEXIBLE_FROM: ClassVar[int] = 3

    throttle_time_ms: int = 0
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)
    error_code: int = 0
    results_by_transaction: list[AddPartitionsToTxnResult] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("results_by_topic_v3_and_below", AddPartitionsToTxnTopicResult, "0-3", array=True),
        Field("error_code", "int16", "4+"),
        Field("results_by_transaction", AddPartitionsToTxnResult, "4+", array=True),
    )
