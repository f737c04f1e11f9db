"""What a query has done, from the progress that Spark reports: rows, rows/s, lag.

Pure: it is fed with Spark's progress documents and the time.

Rules kept here:
1. A batch counts once, however often its progress is seen.
2. The lag is what the topics hold beyond the last batch's end, by offsets: markers of
   transactions and compacted records count in it. It is None where the source does not say.
3. A rate is over the last few seconds, so that it shows what is, not what was.
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark_ottla.pipeline.sinks import OBSERVED, ROWS

RATE_SECONDS = 10.0

Document = Mapping[str, object]


@dataclass(slots=True)
class QueryProgress:
    """The counts of one query since it was started."""

    name: str
    target: str
    started: float
    rows: int = 0
    read: int = 0
    batches: int = 0
    lag: int | None = None
    late: int = 0
    """Rows that were dropped, since they came later than the watermark."""
    restarts: int = 0
    """How often it was started again after a failure of Spark's own."""
    ended: float | None = None
    _last_batch: int = -1
    _history: deque[tuple[float, int]] = field(default_factory=deque)

    def see(self, documents: Iterable[Document], now: float) -> list[Document]:
        """Take notice of progress documents, in their order; those of batches not seen before."""
        new = []
        for document in documents:
            batch = _number(document.get("batchId"))
            self.lag = _lag(document.get("sources"))
            # A document without a duration of `addBatch` tells of a trigger that had nothing to do.
            ran = "addBatch" in _mapping(document.get("durationMs"))
            if batch <= self._last_batch or not ran:
                continue
            self._last_batch = batch
            self.batches += 1
            self.rows += written(document)
            self.read += _number(document.get("numInputRows"))
            self.late += dropped(document)
            new.append(document)
        self._history.append((now, self.rows))
        while len(self._history) > 2 and self._history[1][0] <= now - RATE_SECONDS:
            self._history.popleft()
        return new

    def rate(self, now: float) -> float:
        """Rows a second: of late, or over all of its time once it has ended."""
        if self.ended is not None:
            return self.rows / max(self.ended - self.started, 0.001)
        since, rows = self._history[0] if self._history else (self.started, 0)
        if len(self._history) < 2:
            since, rows = self.started, 0
        return (self.rows - rows) / max(now - since, 0.001)


def written(document: Document) -> int:
    """The rows that a batch handed to its sink."""
    observed = _mapping(_mapping(document.get("observedMetrics")).get(OBSERVED))
    if ROWS in observed:
        return _number(observed[ROWS])
    return max(0, _number(_mapping(document.get("sink")).get("numOutputRows")))


def dropped(document: Document) -> int:
    """The rows that a batch dropped, since they came later than its watermark. Where rows are
    counted in windows, Spark adds up what a task has of a window first, and counts that as one.
    """
    operators = document.get("stateOperators")
    return sum(
        _number(_mapping(operator).get("numRowsDroppedByWatermark"))
        for operator in (operators if isinstance(operators, list) else [])
    )


def topics(document: Document) -> list[str]:
    """The topics that a batch has read."""
    sources = document.get("sources")
    return sorted(
        {
            topic
            for source in (sources if isinstance(sources, list) else [])
            for topic, _ in offsets(_mapping(source).get("endOffset"))
        }
    )


def _lag(sources: object) -> int | None:
    lags = [
        lag
        for source in (sources if isinstance(sources, list) else [])
        if (lag := _source_lag(_mapping(source))) is not None
    ]
    return sum(lags) if lags else None


def _source_lag(source: Document) -> int | None:
    end, latest = offsets(source.get("endOffset")), offsets(source.get("latestOffset"))
    if not latest:
        return None
    return sum(max(0, offset - end.get(where, 0)) for where, offset in latest.items())


def offsets(document: object) -> dict[tuple[str, str], int]:
    """Offsets by topic and partition, from {"topic": {"0": 123}} or the same as a text."""
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except ValueError:
            return {}
    return {
        (topic, partition): offset
        for topic, partitions in _mapping(document).items()
        for partition, offset in _mapping(partitions).items()
        if isinstance(offset, int)
    }


def _mapping(value: object) -> Document:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
