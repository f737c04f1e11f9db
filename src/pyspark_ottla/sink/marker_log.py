"""Reads the marker topic: what was decided for a sink.

Rules kept here:
1. It is read up to the end that its leader names, never just until nothing comes: a batch whose
   decision is not seen would be written again.
2. A process that has read it before continues from there: batch writes look at it several times for
   each batch, and it has a record for each batch of every sink since the last compaction. It is
   read from its start again where it is another topic, or ends before what was read.
"""

import os
from dataclasses import dataclass, field
from time import monotonic
from uuid import UUID

from ottla.client import Admin, Client, TopicPartition
from ottla.client.admin import EARLIEST, LATEST
from ottla.client.cluster import UnknownTopic
from ottla.client.log_slice import fetch_slice
from ottla.wire.batch import headers
from ottla.wire.errors import ErrorCode, KafkaError
from pyspark_ottla.sink.errors import SinkError
from pyspark_ottla.sink.marker import (
    MARKER_PARTITION,
    MARKER_SETTINGS,
    MARKER_TOPIC,
    MarkerReading,
    SinkMarker,
)
from pyspark_ottla.sink.topics import partition_count

READ_BYTES = 8 << 20
WHERE = TopicPartition(MARKER_TOPIC, MARKER_PARTITION)
MOST_READINGS = 64
"""Sinks whose last reading is kept."""


@dataclass
class _Reading:
    """How far a process has read for a sink."""

    topic_id: UUID
    offset: int
    found: MarkerReading


@dataclass
class _Process:
    pid: int = field(default_factory=os.getpid)
    readings: dict[tuple[str, str], _Reading] = field(default_factory=dict)
    """By cluster and sink; the one that was used last is the last."""


_process = _Process()


def read_marker(client: Client, sink: str) -> SinkMarker:
    """What the marker topic says of a sink, from its first to its last record."""
    first, end = _bounds(client)
    client.forget(MARKER_TOPIC)
    topic_id = client.topic(MARKER_TOPIC).id
    readings, key = _readings(), (client.settings.bootstrap_servers, sink)
    reading = readings.pop(key, None)
    if reading is None or reading.topic_id != topic_id or not first <= reading.offset <= end:
        reading = _Reading(topic_id, first, MarkerReading(sink))
    _read_on(client, reading, end)
    # Only what was read without trouble is kept.
    readings[key] = reading
    while len(readings) > MOST_READINGS:
        del readings[next(iter(readings))]
    return reading.found.result()


def _readings() -> dict[tuple[str, str], _Reading]:
    """Nothing that a parent process has read is used: it may be reading just now."""
    global _process
    if _process.pid != os.getpid():
        _process = _Process()
    return _process.readings


def _read_on(client: Client, reading: _Reading, end: int) -> None:
    give_up, pause = monotonic() + client.settings.deadline, client.settings.backoff
    while reading.offset < end:
        offset = reading.offset
        data = fetch_slice(client, WHERE, offset, read_committed=False, max_bytes=READ_BYTES)
        records = memoryview(data.records or b"")
        for at, header in headers(records):
            if header.next_offset <= offset:
                continue  # A batch that reaches back to what was read.
            reading.found.add(header, records[at : at + header.size])
            reading.offset = header.next_offset
        if reading.offset > offset:
            give_up, pause = monotonic() + client.settings.deadline, client.settings.backoff
        elif data.high_watermark >= end:
            break  # Compaction has left nothing up to the end.
        elif monotonic() + pause > give_up:
            raise SinkError(
                f"topic {MARKER_TOPIC} could not be read: it ends at offset {end}, but nothing "
                f"came from offset {offset} on"
            )
        else:
            pause = client.pause(pause)


def _bounds(client: Client) -> tuple[int, int]:
    """Where the marker topic starts and ends. A new leader does not show all of it at once: its
    high watermark follows, and only what it calls the end then is final (KIP-207).
    """
    admin = Admin(client)
    try:
        first = admin.list_offsets({WHERE: EARLIEST})[WHERE].offset
    except UnknownTopic:
        _create_topic(admin)
        partition_count(client, MARKER_TOPIC, create=False)
        first = admin.list_offsets({WHERE: EARLIEST})[WHERE].offset
    return first, admin.list_offsets({WHERE: LATEST})[WHERE].offset


def _create_topic(admin: Admin) -> None:
    try:
        admin.create_topic(MARKER_TOPIC, partitions=1, settings=MARKER_SETTINGS)
    except KafkaError as problem:
        if problem.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
