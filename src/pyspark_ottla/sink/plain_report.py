"""Tells the audit what was written where there is no decision to tell it with.

That is so at least once, and in batch jobs. The event follows the rows then: a driver that dies
between them has written rows that nobody counted, which shows as duplicates, never as a loss.
"""

from collections.abc import Iterable, Sequence
from time import time

from ottla.client import Client
from pyspark_ottla.audit import report
from pyspark_ottla.connections import borrowed
from pyspark_ottla.sink.counting import Counted, events
from pyspark_ottla.sink.messages import RowsWritten
from pyspark_ottla.sink.settings import SinkSettings


def report_rows(settings: SinkSettings, tasks: Sequence[RowsWritten], batch: int) -> None:
    """Tell what the tasks of a stream's batch, or of a batch job, wrote at least once."""
    if settings.audit is not None and tasks:
        parts = [task.counted for task in tasks]
        with borrowed(settings.client) as client:
            report_parts(settings, client, parts, instance=tasks[0].writer, sequence=batch)


def report_parts(
    settings: SinkSettings,
    client: Client,
    parts: Iterable[Counted | None],
    *,
    instance: str,
    sequence: int,
) -> None:
    """Tell what was written, if that is to be counted."""
    if settings.audit is not None:
        now = int(time() * 1000)
        reported = events(settings.audit, parts, instance=instance, sequence=sequence, time=now)
        report(client, reported)
