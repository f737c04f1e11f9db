"""What a task does: read one stretch of a partition as batches of rows.

Rules kept here:
1. A task keeps nothing: all it needs is in its settings and its stretch.
2. No Python object is made for a record: batches go from the socket to Arrow columns.
3. A range is of one topic, known by its id: where another topic has the name by now, the range is
   lost, and nothing of the new topic is read in its place.
4. The process and its connections are older than the batch: nothing is called lost by what they
   remember. The client asks the cluster again before it says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import UUID

from pyspark.sql.datasource import InputPartition

from ottla.client import Client, OffsetOutOfRange, TopicPartition
from ottla.client.cluster import TopicRecreated, UnknownTopic
from ottla.client.range_reader import read_range
from ottla.wire.errors import ErrorCode, KafkaError
from pyspark_ottla.connections import borrowed
from pyspark_ottla.formats.settings import FormatSettings
from pyspark_ottla.source.audit import SourceAudit
from pyspark_ottla.source.cluster import SourceCluster
from pyspark_ottla.source.columns import BYTES, ROWS, RowBatches
from pyspark_ottla.source.loss import Bounds, available
from pyspark_ottla.source.ranges import OffsetRange
from pyspark_ottla.source.settings import SourceSettings
from pyspark_ottla.workers import settle

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

    from ottla.records.columns import RecordColumns
    from pyspark_ottla.formats.columns import Values


@dataclass
class RangePartition(InputPartition):
    """A stretch for a task."""

    range: OffsetRange
    topic_id: UUID | None = None


def read(settings: SourceSettings, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
    """The rows of a stretch."""
    from ottla.records.columns import RecordColumns

    if not isinstance(partition, RangePartition):
        return  # Spark's stand-in where there was nothing to read at all.
    settle()
    wanted, topic_id = partition.range, partition.topic_id
    gathered = RecordColumns(headers=settings.include_headers)
    batches = RowBatches(wanted.topic, wanted.partition)
    audit = None if settings.audit is None else SourceAudit(settings.audit, wanted)

    values = None if settings.format is None else _values(settings.format)

    def take() -> Iterator["pa.RecordBatch"]:
        rows = gathered.take()
        if audit is not None:
            audit.count(rows)
        if values is not None:
            rows = values.applied(rows, wanted.topic, wanted.partition)
        return batches.of(rows)

    with borrowed(settings.client) as client:
        while wanted.size:
            try:
                for position in _gather(client, settings, wanted, topic_id, gathered):
                    wanted = wanted._replace(start=position)
                    if len(gathered) >= ROWS or gathered.nbytes >= BYTES:
                        yield from take()
                wanted = wanted._replace(start=wanted.end)
            except KafkaError as problem:
                wanted = _what_is_left(client, settings, wanted, problem)
        if len(gathered):
            yield from take()
        if audit is not None:
            audit.report(client)


@lru_cache(maxsize=16)
def _values(settings: FormatSettings) -> "Values":
    """What decodes values: its schemas are asked for once by a process that runs many tasks."""
    from pyspark_ottla.formats.columns import Values

    return Values(settings)


def _gather(
    client: Client,
    settings: SourceSettings,
    wanted: OffsetRange,
    topic_id: UUID | None,
    gathered: "RecordColumns",
) -> Iterator[int]:
    """Gather rows, and say after each answer up to which offset."""
    for answer in read_range(
        client,
        TopicPartition(wanted.topic, wanted.partition),
        wanted.start,
        wanted.end,
        read_committed=settings.read_committed,
        max_bytes=min(settings.max_partition_fetch_bytes, settings.fetch_max_bytes),
        max_wait=settings.fetch_max_wait,
        topic_id=topic_id,
    ):
        try:
            after = gathered.add(answer.batches, answer.start, wanted.end)
        except KafkaError as problem:
            raise KafkaError(
                problem.code,
                f"partition {wanted.partition} of topic {wanted.topic}, after offset "
                f"{answer.start}: {problem}",
            ) from None
        yield min(after, wanted.end)


def _what_is_left(
    client: Client, settings: SourceSettings, wanted: OffsetRange, problem: KafkaError
) -> OffsetRange:
    """Offsets, or all of a partition, were deleted after the batch was planned; else the
    problem."""
    where = TopicPartition(wanted.topic, wanted.partition)
    start = wanted.start
    logs: dict[TopicPartition, Bounds] = {}
    recreated = {where.topic} if isinstance(problem, TopicRecreated) else set()
    cluster = SourceCluster(client, settings)
    if isinstance(problem, OffsetOutOfRange):
        start = max(start, problem.offset)
        logs = cluster.bounds([where])
    elif (
        not isinstance(problem, UnknownTopic | TopicRecreated)
        and problem.code is not ErrorCode.INVALID_PARTITIONS
    ):
        raise problem
    found = available({where: start}, {where: wanted.end}, logs, recreated=recreated)
    cluster.report(found.losses)
    if not found.losses:
        raise problem
    return wanted._replace(start=found.start[where], end=found.end[where])
