"""What groups have still to read, in messages and in seconds.

The lag in seconds is the age of the first record that a group has not read yet.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.client import Admin, Client, KafkaError, TopicPartition
from ottla.client.admin import EARLIEST, LATEST
from ottla.client.group_admin import CommittedOffset
from ottla.client.log_slice import fetch_slice
from ottla.wire.batch import headers

LOOKED_INTO: Final = 32
"""Partitions of which the first unread record is looked at for one page."""


class Lag(NamedTuple):
    """The lag in a partition; None where it is not known."""

    committed: int | None
    end: int | None
    messages: int | None


def lags(
    client: Client, committed: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, Lag]:
    """The lag of what a group has committed."""
    led = client.led(committed)
    ends = Admin(client).list_offsets(dict.fromkeys(led, LATEST)) if led else {}
    found = {}
    for where, own in committed.items():
        end = ends[where].offset if where in ends else None
        lag = None if end is None else max(end - own.offset, 0)
        found[where] = Lag(own.offset, end, lag)
    return found


def total(found: Mapping[TopicPartition, Lag]) -> int | None:
    """The sum of what is known; None where nothing is."""
    known = [each.messages for each in found.values() if each.messages is not None]
    return sum(known) if known else None


def lag_seconds(
    client: Client, found: Mapping[TopicPartition, Lag], now_ms: int
) -> dict[TopicPartition, float]:
    """The age of the first unread record in partitions with a lag, for the first of them."""
    ages: dict[TopicPartition, float] = {}
    behind = [(where, each) for where, each in found.items() if each.messages]
    for where, each in behind[:LOOKED_INTO]:
        assert each.committed is not None
        at = _timestamp(client, where, each.committed)
        if at is not None:
            ages[where] = max(now_ms - at, 0) / 1000
    for where, each in found.items():
        if each.messages == 0:
            ages[where] = 0.0
    return ages


def _timestamp(client: Client, where: TopicPartition, offset: int) -> int | None:
    """The timestamp of the batch that an offset is in; of records deleted since, that of the
    first one that is left.
    """
    try:
        return _first_timestamp(client, where, offset)
    except KafkaError:
        try:
            start = Admin(client).list_offsets({where: EARLIEST})[where].offset
            return _first_timestamp(client, where, start) if start > offset else None
        except KafkaError:
            return None


def _first_timestamp(client: Client, where: TopicPartition, offset: int) -> int | None:
    data = fetch_slice(client, where, offset, read_committed=False, max_bytes=1)
    for _, header in headers(memoryview(data.records or b"")):
        return header.base_timestamp
    return None
