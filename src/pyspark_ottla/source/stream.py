"""The reader for `spark.readStream`: where each micro-batch begins and ends.

It lives in one process beside the driver as long as its query runs; only read() runs in tasks, in
copies of it that hold nothing but the settings.

Rules kept here:
1. The start of a query is resolved once and written into the end of its first micro-batch, which
   runs even when there is nothing to read: from then on a restart begins at the same place.
2. A place that has not moved is returned as the very value that Spark gave.
3. Partitions and topics that appear while a query runs are read from offset 0. So is a topic that
   was deleted and created again, which its id tells, where failOnDataLoss allows it.
4. A query that reads what is available now ends at what was there when it was started.
5. An end is committed to a group only when Spark is done with that batch: Spark says so one batch
   later in commit(), but starts the next batch from there at once, and for the last batch that is
all. 6. Where a query stands past the last stable offset, though not past the log's end, it waits.
"""

import logging
from collections.abc import Collection, Iterator, Sequence, Set
from time import monotonic
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.client import TopicPartition
from ottla.client.group_admin import GroupAdmin
from ottla.wire.errors import KafkaError
from pyspark_ottla.connections import borrowed
from pyspark_ottla.errors import OptionError
from pyspark_ottla.source.cluster import SourceCluster
from pyspark_ottla.source.limits import Patience, limited, waiting
from pyspark_ottla.source.loss import Bounds, available, recreations, vanished
from pyspark_ottla.source.offsets import (
    NOTHING,
    PINNED,
    Offsets,
    Position,
    from_json,
    pinned_start,
    to_json,
    with_pinned_start,
)
from pyspark_ottla.source.ranges import ranges, split
from pyspark_ottla.source.reading import RangePartition, read
from pyspark_ottla.source.settings import SourceSettings

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

_log = logging.getLogger("pyspark_ottla")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on from where the last micro-batch ended."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._initial: Position | None = None
        self._target: Position | None = None
        """Where a query over what is available now ends."""
        self._latest: Offsets | None = None
        """Where logs ended when that was last asked."""
        self._missing: Set[TopicPartition] = frozenset()
        """Partitions that were read and no longer exist."""
        self._committed: Position | None = None
        least = settings.min_offsets_per_trigger
        self._patience = Patience(least or 0, settings.max_trigger_delay)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Where a new query starts. Spark asks several times for the same query."""
        if self._initial is None:
            with borrowed(self._settings.client) as client:
                cluster = SourceCluster(client, self._settings)
                self._initial = self._resolve_start(cluster)
            if self._target is not None:
                # What came between the two questions belongs to the next run.
                target = self._target.offsets
                for partition, offset in self._initial.offsets.items():
                    target[partition] = max(offset, target.get(partition, 0))
        return to_json(*self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """What the options say. Spark cannot combine two limits: the lower one is known here."""
        if self._settings.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._settings.max_offsets_per_trigger)
        if self._settings.min_offsets_per_trigger is not None:
            return ReadMinRows(self._settings.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        """Note what is there now."""
        with borrowed(self._settings.client) as client:
            cluster = SourceCluster(client, self._settings)
            self._target = self._latest_of(cluster, NOTHING)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Where the micro-batch that begins at `start` ends."""
        begin = from_json(start)
        is_first = PINNED not in start and begin == self._initial
        if not is_first:
            self._tell_group(begin)
        with borrowed(self._settings.client) as client:
            cluster = SourceCluster(client, self._settings)
            end = self._end(cluster, begin, limit)
        if is_first:
            return with_pinned_start(end, begin)
        return (
            start
            if end.offsets == begin.offsets and not begin.recreated(end.ids)
            else to_json(*end)
        )

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 (Spark's name)
        """Where logs end: the lag in a query's progress is the distance to it."""
        return None if self._latest is None else to_json(self._latest, {})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The stretches of a micro-batch that tasks read."""
        if start == end:
            return []
        begin = pinned_start(end) or from_json(start)
        stop = from_json(end)
        settings = self._settings
        # The batch that goes over to a topic that was created again begins at its start.
        offsets = dict.fromkeys(stop.offsets, 0) | _without(
            begin.offsets, begin.recreated(stop.ids)
        )
        moved = {item: last for item, last in sorted(stop.offsets.items()) if offsets[item] != last}
        with borrowed(settings.client) as client:
            cluster = SourceCluster(client, settings)
            there = cluster.existing(Position(moved, stop.ids))
            recreated = stop.recreated(there.ids)
            logs = cluster.bounds([item for item in there.partitions if item in moved])
            found = available(offsets, moved, logs, goes_on=True, recreated=recreated)
            cluster.report(found.losses)
        parts = split(
            ranges(found.start, found.end),
            settings.min_partitions,
            settings.max_records_per_partition,
        )
        return [RangePartition(part, stop.ids.get(part.topic)) for part in parts]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one stretch."""
        return read(self._settings, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark is done with what lies before `end`."""
        self._tell_group(from_json(end))

    def _resolve_start(self, cluster: SourceCluster) -> Position:
        wanted, ids = cluster.wanted()
        start = cluster.resolve(self._settings.start, wanted)
        found = available(start, start, cluster.bounds(wanted))
        cluster.report(found.losses)
        return Position(found.start, ids)

    def _latest_of(self, cluster: SourceCluster, known: Position) -> Position:
        """Where logs end now."""
        there = cluster.existing(known)
        return Position(cluster.latest(there.partitions), there.ids)

    def _end(self, cluster: SourceCluster, begin: Position, limit: ReadLimit) -> Position:
        # What was found missing before is not waited for in each batch.
        expected = {item: at for item, at in begin.offsets.items() if item not in self._missing}
        target = self._target or self._latest_of(cluster, Position(expected, begin.ids))
        self._missing = begin.offsets.keys() - target.offsets.keys()
        recreated = begin.recreated(target.ids)
        cluster.report(recreations(begin.offsets, recreated))
        start = _without(begin.offsets, recreated)
        end = self._end_of(cluster, start, target.offsets, limit)
        return Position(end, begin.ids | target.ids)

    def _end_of(
        self, cluster: SourceCluster, begin: Offsets, latest: Offsets, limit: ReadLimit
    ) -> Offsets:
        settings = self._settings
        # A query that read uncommitted records before may be past a transaction that is open.
        past = [item for item, end in latest.items() if end < begin.get(item, 0)]
        ends = cluster.undecided_ends(past)
        latest = latest | {item: begin[item] for item in past if begin[item] <= ends[item]}
        self._latest = latest
        # A partition that has vanished stays in the offsets where it was.
        cluster.report(vanished(begin, latest))
        begin = dict.fromkeys(latest, 0) | begin
        logs = {item: Bounds(min(begin[item], end), end) for item, end in latest.items()}
        ends = {item: max(begin[item], end) for item, end in latest.items()}
        found = available(begin, ends, logs, goes_on=True)
        cluster.report(found.losses)
        begin, latest = begin | found.start, begin | found.end
        if isinstance(limit, ReadAllAvailable):
            return latest
        if (
            settings.min_offsets_per_trigger is not None
            and self._target is None
            and self._patience.holds_back(waiting(begin, latest), monotonic())
        ):
            return begin
        if isinstance(limit, ReadMaxRows):
            return limited(begin, latest, limit.max_rows)
        return latest

    def _tell_group(self, position: Position) -> None:
        """Commit to the group; what cannot be committed now is committed with the next batch."""
        group = self._settings.commit_group
        if group is None or position == self._committed:
            return
        try:
            with borrowed(self._settings.client) as client:
                # For a topic that is gone the broker would be asked again until the deadline.
                there = SourceCluster(client, self._settings).existing()
                kept = _without(position.offsets, position.recreated(there.ids))
                known = {item: kept[item] for item in there.partitions if item in kept}
                if known:
                    GroupAdmin(client).commit_offsets(group, known)
        except KafkaError as problem:
            if not problem.retriable:
                raise OptionError(f"option commitGroup is {group!r}: {problem}") from None
            _log.warning("failed to commit offsets to group %s: %s", group, problem)
            return
        self._committed = position


def _without(offsets: Offsets, topics: Collection[str]) -> Offsets:
    """The offsets of other topics than these."""
    return {item: offset for item, offset in offsets.items() if item.topic not in topics}
