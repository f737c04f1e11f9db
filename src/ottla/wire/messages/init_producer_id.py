"""InitProducerId (API key 22).

Written by tools/generate_messages.py: change that, not this.
"""

from typing import ClassVar

from ottla.wire.message import Field, Message


class InitProducerIdRequest(Message, kw_only=True):
    """Versions 0 to 6."""

    API_KEY: ClassVar[int] = 22
    VERSIONS: ClassVar[tuple[int, int]] = (0, 6)
    FLEXIBLE_FROM: ClassVar[int] = 2

    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("transactional_id", "string", "0+", nullable="0+"),
        Field("transaction_timeout_ms", "int32", "0+"),
        Field("producer_id", "int64", "3+"),
        Field("producer_epoch", "int16", "3+"),
        Field("enable2_pc", "bool", "6+"),
        Field("keep_prepared_txn", "bool", "6+"),
    )


class InitProducerIdResponse(Message, kw_only=True):
    """Versions 0 to 6."""

    API_KEY: ClassVar[int] = 22
    VERSIONS: ClassVar[tuple[int, int]] = (0, 6)
    FLEXIBLE_FROM: ClassVar[int] = 2

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("throttle_time_ms", "int32", "0+"),
        Field("error_code", "int16", "0+"),
        Field("producer_id", "int64", "0+"),
        Field("producer_epoch", "int16", "0+"),
        Field("ongoing_txn_producer_id", "int64", "6+"),
        Field("ongoing_txn_producer_epoch", "int16", "6+"),
    )
