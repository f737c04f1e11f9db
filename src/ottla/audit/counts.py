"""Counting records by topic, partition and window of their timestamps.

Rules kept here:
1. A window begins at a multiple of its length since 1970; a record belongs to the one that its
   timestamp lies in.
2. A broker that reads batch headers cannot see a record whose timestamp is older than that of its
   batch's first record. So a record behind one of a later window is counted as somewhere from its
   own window to that later one: the check can then match what the broker has counted there. Only
   the last report's records are remembered for that.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.audit.events import INTERVAL_MS, WINDOW_MS, Count, Event, Span, Tier

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # ships no types

State = list[tuple[str, list[Count], list[tuple[int, int, int]]]]
"""Topic, counts, and spans as (partition, begin, end): plain lists and numbers."""

_UNITS_IN_A_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}


class _Topic:
    """What is counted of one topic."""

    __slots__ = ("counts", "latest", "spans")

    def __init__(self, latest: dict[int, int]) -> None:
        self.counts: dict[tuple[int, int, int], int] = {}
        self.spans: dict[int, Span] = {}
        self.latest = latest
        """The latest window of each partition, now or in the last report."""


class Counts:
    """What was counted since the last report."""

    def __init__(self, window_ms: int = WINDOW_MS) -> None:
        if window_ms < 1:
            raise ValueError(f"a window of {window_ms} ms is too short")
        self.window_ms = window_ms
        self._topics: dict[str, _Topic] = {}

    def __bool__(self) -> bool:
        return bool(self.topics)

    @property
    def topics(self) -> list[str]:
        """The topics of which anything was counted."""
        return [name for name, topic in self._topics.items() if topic.counts]

    def add(
        self, topic: str, partition: int, timestamp_ms: int, n: int = 1, offset: int = -1
    ) -> None:
        """Count `n` records of one timestamp; their offsets follow each other from `offset` on."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Topic({})
        window = timestamp_ms - timestamp_ms % self.window_ms
        latest = found.latest.get(partition, window)
        if window >= latest:
            found.latest[partition] = latest = window
        key = partition, window, latest
        found.counts[key] = found.counts.get(key, 0) + n
        if offset >= 0:
            self._widen(found, partition, offset, offset + n)

    def add_span(self, topic: str, partition: int, begin: int, end: int) -> None:
        """Say where records that were counted without their offsets lie."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Topic({})
        self._widen(found, partition, begin, end)

    def add_timestamps(
        self, topic: str, partition: int, timestamps: "pa.Array", begin: int, end: int
    ) -> None:
        """Count records by a column of their timestamps (Arrow's type `timestamp`), in the order of
        their offsets, which lie from `begin` to before `end`.
        """
        if len(timestamps):
            for first, last, n in self._windows(topic, partition, timestamps):
                self._put(topic, (partition, first, last), n)
        self.add_span(topic, partition, begin, end)

    def _windows(
        self, topic: str, partition: int, timestamps: "pa.Array"
    ) -> Iterable[tuple[int, int, int]]:
        import pyarrow as pa
        import pyarrow.compute as pc  # type: ignore[import-untyped]  # ships no types

        found = self._topics.get(topic)
        length = self.window_ms * _UNITS_IN_A_MS[timestamps.type.unit]
        values = timestamps.cast(pa.int64())
        extremes = pc.min_max(values)
        lowest, highest = extremes["min"].as_py(), extremes["max"].as_py()
        first, last = lowest // length, highest // length
        before = None if found is None else found.latest.get(partition)
        latest = first if before is None else before // self.window_ms
        if first == last and last >= latest:
            return [(first * self.window_ms, last * self.window_ms, len(values))]
        # Counted from the lowest window on: division of what is below zero would round upwards.
        places = pc.divide(pc.subtract(values, first * length), length)
        start = max(latest - first, 0)
        so_far = pc.max_element_wise(pc.cumulative_max(places), start)
        groups = pa.table({"own": places, "latest": so_far}).group_by(["own", "latest"])
        counted = groups.aggregate([([], "count_all")]).to_pydict()
        return [
            ((first + own) * self.window_ms, (first + at) * self.window_ms, n)
            for own, at, n in zip(
                counted["own"], counted["latest"], counted["count_all"], strict=True
            )
        ]

    def _put(self, topic: str, key: tuple[int, int, int], n: int) -> None:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Topic({})
        found.counts[key] = found.counts.get(key, 0) + n
        partition, _, last = key
        if last > found.latest.get(partition, last - 1):
            found.latest[partition] = last

    @staticmethod
    def _widen(found: _Topic, partition: int, begin: int, end: int) -> None:
        span = found.spans.get(partition)
        if span is None:
            found.spans[partition] = begin, end
        elif begin < span[0] or end > span[1]:
            found.spans[partition] = min(begin, span[0]), max(end, span[1])

    # Handing over -------------------------------------------------------------------------

    def state(self) -> State:
        """Everything counted, in plain lists: for another process, or to be put in JSON."""
        return [
            (
                name,
                [(*key, n) for key, n in topic.counts.items()],
                [(partition, *span) for partition, span in topic.spans.items()],
            )
            for name, topic in self._topics.items()
        ]

    def merge(self, state: State) -> None:
        """Add what was counted elsewhere, with windows of the same length."""
        for topic, counts, spans in state:
            for partition, first, last, n in counts:
                self._put(topic, (partition, first, last), n)
            for partition, begin, end in spans:
                self.add_span(topic, partition, begin, end)

    def successor(self) -> "Counts":
        """Empty counts that continue from here."""
        after = Counts(self.window_ms)
        for name, topic in self._topics.items():
            latest: dict[int, int] = {}
            for partition, first, _ in topic.counts:
                if first >= latest.get(partition, first):
                    latest[partition] = first
            if latest:
                after._topics[name] = _Topic(latest)
        return after

    def event(
        self,
        topic: str,
        *,
        tier: Tier,
        name: str,
        instance: str,
        sequence: int,
        next: int | None,  # noqa: A002 (the field's name)
        time: int,
        open: bool = False,  # noqa: A002 (the field's name)
        interval_ms: int = INTERVAL_MS,
    ) -> Event:
        """The event that tells what was counted of a topic, also where that is nothing."""
        found = self._topics.get(topic)
        return Event(
            tier=tier,
            name=name,
            instance=instance,
            topic=topic,
            sequence=sequence,
            next=next,
            time=time,
            window_ms=self.window_ms,
            counts=[] if found is None else [(*key, n) for key, n in sorted(found.counts.items())],
            spans={} if found is None else dict(found.spans),
            open=open,
            interval_ms=interval_ms if open else 0,
        )
