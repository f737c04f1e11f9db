"""DescribeShareGroupOffsets with what Kafka's does not tell: how many records are in flight.

Only the leader of a partition knows it. A request with the tagged field asks the broker for what it
leads itself; the answer is a tagged field too. Clients and brokers that do not know these fields
pass over them, as the protocol says: their meaning of the API stays what it was.
"""

from typing import ClassVar
from uuid import UUID

from msgspec import field

from ottla.wire.message import NO_UUID, Field, Part
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)

TAG = 20_000
"""Far from those that Kafka gives out, one after the other."""


class InFlight(Part, kw_only=True):
    """A share partition that the broker leads."""

    group_id: str = ""
    topic_id: UUID = NO_UUID
    partition: int = 0
    records: int = 0

    FIELDS: ClassVar[tuple[Field, ...]] = (
        Field("group_id", "string", "0+"),
        Field("topic_id", "uuid", "0+"),
        Field("partition", "int32", "0+"),
        Field("records", "int32", "0+"),
    )


class DescribeInFlightRequest(DescribeShareGroupOffsetsRequest, kw_only=True):
    """The request; `in_flight` asks for nothing but that."""

    in_flight: bool = False

    FIELDS: ClassVar[tuple[Field, ...]] = (
        *DescribeShareGroupOffsetsRequest.FIELDS,
        Field("in_flight", "bool", "0+", tag=TAG),
    )


class DescribeInFlightResponse(DescribeShareGroupOffsetsResponse, kw_only=True):
    """The response."""

    in_flight: list[InFlight] = field(default_factory=list)

    FIELDS: ClassVar[tuple[Field, ...]] = (
        *DescribeShareGroupOffsetsResponse.FIELDS,
        Field("in_flight", InFlight, "0+", array=True, tag=TAG),
    )
