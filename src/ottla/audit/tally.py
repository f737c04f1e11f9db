"""What a client that runs for long has counted, and the events by which it tells that. Pure.

Rules kept here:
1. A topic's events have the sequences 0, 1, 2, ...; each tells what was counted since the one
   before.
2. While a topic is counted its events are `open`. When nothing was counted between two reports, or
   at the end, one event follows that is not. So an instance that dies in between leaves an open one
   behind, and the check can say that counts may be missing.
3. Records of a transaction count when it commits; those of an aborted one never.
"""

from ottla.audit.counts import Counts
from ottla.audit.events import INTERVAL_MS, WINDOW_MS, Event, Tier


class Tally:
    """The counts of one instance of a tier."""

    def __init__(
        self,
        tier: Tier,
        name: str,
        instance: str,
        *,
        window_ms: int = WINDOW_MS,
        interval_ms: int = INTERVAL_MS,
    ) -> None:
        self._tier = tier
        self._name = name
        self._instance = instance
        self._interval_ms = interval_ms
        self._counts = Counts(window_ms)
        self._undecided: Counts | None = None
        self._sequences: dict[str, int] = {}
        self._open: dict[str, None] = {}

    @property
    def has_news(self) -> bool:
        """True where a report would tell something."""
        return bool(self._open) or bool(self._counts)

    def add(self, topic: str, partition: int, timestamp_ms: int, offset: int = -1) -> None:
        """Count a record."""
        counts = self._counts if self._undecided is None else self._undecided
        counts.add(topic, partition, timestamp_ms, 1, offset)

    def begin_transaction(self) -> None:
        """What is counted from now on waits for the transaction's end."""
        self._undecided = self._counts.successor()

    def end_transaction(self, *, committed: bool) -> None:
        """A transaction has ended."""
        undecided, self._undecided = self._undecided, None
        if undecided is not None and committed:
            self._counts.merge(undecided.state())

    def report(self, now: int, *, last: bool = False) -> list[Event]:
        """Take what was counted since the last report, as events to be written in this order."""
        counts, self._counts = self._counts, self._counts.successor()
        counted = counts.topics
        silent = [topic for topic in self._open if topic not in counted]
        events = []
        for topic in (*counted, *silent):
            is_open = topic in counted and not last
            sequence = self._sequences.get(topic, 0)
            self._sequences[topic] = sequence + 1
            events.append(
                counts.event(
                    topic,
                    tier=self._tier,
                    name=self._name,
                    instance=self._instance,
                    sequence=sequence,
                    next=sequence + 1,
                    time=now,
                    open=is_open,
                    interval_ms=self._interval_ms,
                )
            )
            if is_open:
                self._open[topic] = None
            else:
                self._open.pop(topic, None)
        return events
