"""The reader for `spark.read`: what lies between two places, planned once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.client import TopicPartition
from pyspark_ottla.connections import borrowed
from pyspark_ottla.errors import OptionError
from pyspark_ottla.source.cluster import SourceCluster
from pyspark_ottla.source.loss import Bounds, available
from pyspark_ottla.source.offsets import Offsets, in_words
from pyspark_ottla.source.ranges import ranges, split
from pyspark_ottla.source.reading import RangePartition, read
from pyspark_ottla.source.settings import SourceSettings

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs


class BatchReader(DataSourceReader):
    """Reads from a start to an end."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        """The stretches that tasks read."""
        settings = self._settings
        with borrowed(settings.client) as client:
            cluster = SourceCluster(client, settings)
            wanted, ids = cluster.wanted()
            if not wanted:
                raise OptionError(
                    f"option subscribePattern: no topic matches {settings.subscription.pattern!r}"
                )
            start = cluster.resolve(settings.start, wanted)
            end = cluster.resolve(settings.end, wanted)
            logs = cluster.bounds(wanted)
            self._check_order(start, end, logs)
            found = available(start, end, logs)
            cluster.report(found.losses)
        parts = split(
            ranges(found.start, found.end),
            settings.min_partitions,
            settings.max_records_per_partition,
        )
        return [RangePartition(part, ids.get(part.topic)) for part in parts]

    def _check_order(
        self, start: Offsets, end: Offsets, logs: Mapping[TopicPartition, Bounds]
    ) -> None:
        """An end that is before the start, though the log has both, is no loss but a mistake."""
        for partition, first in start.items():
            if end[partition] < first <= logs[partition].end:
                raise OptionError(
                    f"option {self._settings.start.option} is offset {first} for "
                    f"{in_words([partition])}, after {self._settings.end.option}, which is offset "
                    f"{end[partition]}"
                )

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one stretch."""
        return read(self._settings, partition)
