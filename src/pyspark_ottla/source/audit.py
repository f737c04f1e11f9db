"""What a source read, counted for `ottla audit`.

Rules kept here:
1. A task reports its stretch once it was read to the end, also where it held no row: the next
   stretch then follows on it, and what is missing between two can be seen.
2. A task that is run again reports the same stretch under the same name, which counts once.
"""

import time
from typing import TYPE_CHECKING

from pyspark import TaskContext

from ottla.audit.counts import Counts
from ottla.audit.events import Tier
from ottla.client import Client
from pyspark_ottla.audit import AuditSettings, report
from pyspark_ottla.source.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

QUERY_ID = "sql.streaming.queryId"


class SourceAudit:
    """Counts the rows of one stretch."""

    def __init__(self, settings: AuditSettings, stretch: OffsetRange) -> None:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_ID)
        self._query = query or settings.job
        self._name = settings.name or self._query
        self._stretch = stretch
        self._counts = Counts(settings.window_ms)

    def count(self, rows: "pa.RecordBatch") -> None:
        """Count some rows, in the order of their offsets."""
        if rows.num_rows:
            offsets = rows.column("offset")
            first, last = offsets[0].as_py(), offsets[-1].as_py()
            topic, partition = self._stretch.topic, self._stretch.partition
            timestamps = rows.column("timestamp")
            self._counts.add_timestamps(topic, partition, timestamps, first, last + 1)

    def report(self, client: Client) -> None:
        """The stretch was read to its end."""
        stretch = self._stretch
        self._counts.add_span(stretch.topic, stretch.partition, stretch.start, stretch.end)
        event = self._counts.event(
            stretch.topic,
            tier=Tier.SPARK_SOURCE,
            name=self._name,
            instance=f"{self._query}/{stretch.partition}",
            sequence=stretch.start,
            next=stretch.end,
            time=int(time.time() * 1000),
        )
        report(client, [event])
