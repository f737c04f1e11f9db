"""From the events in an audit topic to those that count, and what cannot be known. Pure.

Rules kept here:
1. Of the events of a chain each sequence counts once: see `events`.
2. An event that begins before the one in front of it ends is counted for nothing, and said, unless
   it is only the same one again: two instances must not count the same records.
3. A sequence that is missing between two events is said. Before the first one seen nothing is
   missed: the audit topic is not kept for ever.
4. An event that tells of lost offsets only does that: after it the same offsets mean other records.
5. A chain whose last event is open, and older than three of its intervals, has died: said as well.
"""

from collections import defaultdict
from collections.abc import Iterable

from ottla.audit.events import Event, Tier

INTERVALS_UNTIL_DEAD = 3
SHORTEST_GRACE_MS = 5_000


class Chain:
    """The events of one instance of a tier about one topic that count, in order."""

    def __init__(self, written: list[Event]) -> None:
        """`written` are in the order of the audit topic."""
        latest = written[-1]
        self.tier = latest.tier
        self.name = latest.name
        self.topic = latest.topic
        self.instance = latest.instance
        self.time = max(event.time for event in written)
        self.interval_ms = max(event.interval_ms for event in written)
        self.events: list[Event] = []
        self.gaps: list[tuple[int, int]] = []
        self.overlaps: list[Event] = []
        self.lost: set[tuple[int, int, int]] = set()
        life: list[Event] = []
        for event in written:
            if event.lost:  # offsets begin again below: what follows is another life of the log
                self.lost.update(event.lost)
                self._settle(life)
                life = []
            else:
                life.append(event)
        self._settle(life)
        self.is_open = bool(self.events) and self.events[-1].open

    def _settle(self, written: list[Event]) -> None:
        best: dict[int, Event] = {}
        for event in written:
            known = best.get(event.sequence)
            if known is None or _reach(event) >= _reach(known):
                best[event.sequence] = event
        position: int | None = None
        for sequence in sorted(best):
            event = best[sequence]
            if position is not None and event.next is not None:
                if sequence < position:
                    if event.next > position:
                        self.overlaps.append(event)
                    continue
                if sequence > position:
                    self.gaps.append((position, sequence))
            position = event.next
            self.events.append(event)

    def is_dead(self, now: int) -> bool:
        """True where the instance ended without its last report."""
        grace = max(self.interval_ms * INTERVALS_UNTIL_DEAD, SHORTEST_GRACE_MS)
        return self.is_open and now - self.time > grace

    def notes(self, now: int) -> list[str]:
        """What cannot be known of this chain, in sentences."""
        who = f"{self.tier} {self.name} ({self.instance})"
        notes = []
        if self.is_dead(now):
            notes.append(
                f"{self.topic}: {who} ended without its last report: what it counted in its last "
                f"{self.interval_ms / 1000:g} s is not known"
            )
        for begin, end in self.gaps:
            what = "offsets" if self.tier is Tier.BROKER else "reports"
            notes.append(f"{self.topic}: {what} {begin} to {end - 1} of {who} were not counted")
        notes += [
            f"{self.topic}: what {who} counted from {event.sequence} to {event.next} overlaps with "
            "other counts and is left out"
            for event in self.overlaps
        ]
        if dropped := sum(event.dropped for event in self.events):
            notes.append(
                f"{self.topic}: {self.tier} {self.name} dropped {dropped} rows that were later "
                "than its watermark"
            )
        return notes


def chains(events: Iterable[Event]) -> list[Chain]:
    """The chains in a number of events, which are in the order of the audit topic."""
    written: dict[tuple[Tier, str, str], list[Event]] = defaultdict(list)
    for event in events:
        written[event.chain].append(event)
    return [Chain(each) for each in written.values()]


def _reach(event: Event) -> int:
    return event.sequence if event.next is None else event.next
