"""Rows that came later than a query's watermark, which Spark drops: counted, and kept if asked for.

Rules kept here:
1. Each batch that dropped rows is reported to the audit, by an event with the batch's number: it
   counts once, however often it is written.
2. Where a source's watermark has `late: dead_letters`, the records of such a batch whose time is
   not after its watermark go to the source's dead letters, once (a batch write with the batch's
   number). All that were dropped are among them. Others may be too: Spark drops a row only when its
   window is over.
3. Only batches that dropped rows are read again for it.
"""

import json
from collections.abc import Mapping
from time import time
from typing import TYPE_CHECKING

from ottla.audit.events import Event, Tier
from pyspark_ottla.audit import report
from pyspark_ottla.connections import borrowed
from pyspark_ottla.options import Use
from pyspark_ottla.pipeline.checking import reads_topic
from pyspark_ottla.pipeline.failures import cause
from pyspark_ottla.pipeline.frames import Frames
from pyspark_ottla.pipeline.model import LATE_TO_DEAD_LETTERS, Pipeline, TopicSource
from pyspark_ottla.pipeline.options import kafka_options, security_options, source_options
from pyspark_ottla.pipeline.problems import PipelineError
from pyspark_ottla.pipeline.progress import Document, dropped, offsets, topics
from pyspark_ottla.pipeline.session import session_of_query
from pyspark_ottla.source.settings import SourceSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLIEST = -2
EPOCH = "1970-01-01T00:00:00.000Z"


class LateRows:
    """What becomes of the late rows of a pipeline's queries."""

    def __init__(self, spark: "SparkSession", pipeline: Pipeline) -> None:
        self._spark = spark
        self._pipeline = pipeline

    def take(self, query: str, document: Document) -> None:
        """Take notice of a batch's progress."""
        number = dropped(document)
        if number:
            if self._pipeline.audit:
                self._tell(query, document, number)
            for source in self._pipeline.sources.values():
                if isinstance(source, TopicSource) and _keeps_late_rows(source):
                    self._keep(query, source, document)

    def _tell(self, query: str, document: Document, number: int) -> None:
        read = topics(document)
        for source in self._pipeline.sources.values():
            if isinstance(source, TopicSource) and any(reads_topic(source, name) for name in read):
                options = source_options(self._pipeline, source, query)
                event = Event(
                    tier=Tier.SPARK_SOURCE,
                    name=options["auditName"],
                    instance=f"{document.get('id')}/late",
                    topic=read[0],
                    sequence=int(str(document["batchId"])),
                    next=None,
                    time=int(time() * 1000),
                    window_ms=1,
                    dropped=number,
                )
                with borrowed(SourceSettings.of(options, Use.STREAM_READ).client) as client:
                    report(client, [event])
                return

    def _keep(self, query: str, source: TopicSource, document: Document) -> None:
        from pyspark.errors import PySparkException

        assert source.watermark is not None
        assert source.dead_letters is not None
        watermark, stretch = _watermark(document), _stretch(source, document)
        if watermark is None or not stretch:
            return
        session = session_of_query(self._spark)
        frames = Frames(session, self._pipeline, query)
        column = str(source.watermark.column)
        options = {
            **kafka_options(self._pipeline),
            **security_options(source.options),
            "topic": str(source.dead_letters),
            "sinkId": f"{document.get('id')}.{source.name}.late",
            "batchId": str(document["batchId"]),
        }
        try:
            letters = frames.late_letters(source, stretch, column, watermark)
            letters.write.format("ottla").mode("append").options(**options).save()
        except PySparkException as wrong:
            raise PipelineError(
                f"sink {query}: its late rows could not be written to {source.dead_letters}: "
                f"{cause(str(wrong))}"
            ) from None


def _keeps_late_rows(source: TopicSource) -> bool:
    return source.watermark is not None and source.watermark.late == LATE_TO_DEAD_LETTERS


def _watermark(document: Document) -> str | None:
    event_time = document.get("eventTime")
    found = event_time.get("watermark") if isinstance(event_time, Mapping) else None
    return None if found in (None, EPOCH) else str(found)


def _stretch(source: TopicSource, document: Document) -> dict[str, str]:
    """The options that read the same records of a source again; none where the batch had none."""
    found = document.get("sources")
    for each in found if isinstance(found, list) else ():
        ends, starts = offsets(each.get("endOffset")), offsets(each.get("startOffset"))
        if ends and all(reads_topic(source, topic) for topic, _ in ends):
            partitions: dict[str, list[int]] = {}
            for topic, partition in sorted(ends):
                partitions.setdefault(topic, []).append(int(partition))
            return {
                "assign": json.dumps(partitions),
                "startingOffsets": _json({where: starts.get(where, EARLIEST) for where in ends}),
                "endingOffsets": _json(ends),
            }
    return {}


def _json(offsets: Mapping[tuple[str, str], int]) -> str:
    document: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        document.setdefault(topic, {})[partition] = offset
    return json.dumps(document)
