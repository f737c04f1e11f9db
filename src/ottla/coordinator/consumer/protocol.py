"""What Kafka's consumers put into the opaque fields of the classic protocol.

A member's metadata is a subscription, its assignment a list of partitions: both start with a
version of two bytes. The broker reads them to know which topics a group uses, and to serve classic
members in a consumer group; it never needs them to run a classic group.

Rules kept here:
1. Bytes that are not of this form raise DecodeError, and nothing else.
2. A version later than ours is read as ours: versions only add fields at the end.
"""

from collections.abc import Mapping, Set
from struct import Struct
from uuid import UUID

from ottla.coordinator.topics import TopicView
from ottla.wire.codec import DecodeError, decode, encode
from ottla.wire.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

PROTOCOL_TYPE = "consumer"
LATEST_VERSION = 3

_VERSION = Struct(">h")


def read_version(data: bytes) -> int:
    """The version that the bytes start with."""
    if len(data) < _VERSION.size:
        raise DecodeError(f"{len(data)} bytes are no message of the consumer protocol")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"version {version} of the consumer protocol")
    return version


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Read a member's metadata."""
    version = min(read_version(data), LATEST_VERSION)
    return decode(ConsumerProtocolSubscription, version, data, _VERSION.size)


def read_subscribed_topics(data: bytes) -> list[str]:
    """Read only the topics of a subscription: all versions start as version 0 does."""
    read_version(data)
    return decode(ConsumerProtocolSubscription, 0, data, _VERSION.size).topics


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Read a member's assignment."""
    version = min(read_version(data), LATEST_VERSION)
    return decode(ConsumerProtocolAssignment, version, data, _VERSION.size)


def write_assignment(
    partitions: Mapping[UUID, Set[int] | Mapping[int, int]], topics: TopicView, version: int
) -> bytes:
    """Write an assignment in a version; topics that are gone are left out."""
    version = min(version, LATEST_VERSION)
    assigned = [
        TopicPartition(topic=topic.name, partitions=sorted(numbers))
        for topic_id, numbers in partitions.items()
        if (topic := topics.by_id(topic_id)) is not None
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=assigned)
    return _VERSION.pack(version) + encode(message, version)
