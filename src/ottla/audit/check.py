"""The check: what every tier has counted of each topic and window, and what is missing. Pure.

Rules kept here:
1. Produced is compared with stored, and stored with what each consumer got; without a broker that
   counts, produced is compared with the consumers. Partition by partition, so that a loss in one
   does not hide a double in another.
2. Late is not missing. A record is due at the next tier only where that tier has reported offsets
   before and after it. What is not due yet is `late`.
3. Nor is early a double. What a tier has got beyond what the one before has reported is left open.
4. Records from before a tier began to count are not compared.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial

from ottla.audit.chains import Chain, chains
from ottla.audit.events import CONSUMING, PRODUCING, Event, Span, Tier
from ottla.audit.matching import Item, match

NOT_KNOWN = 2**63


@dataclass(slots=True)
class Consumed:
    """One consumer's part of a window."""

    tier: str
    name: str
    consumed: int = 0
    missing: int = 0
    duplicate: int = 0
    late: int = 0


@dataclass(slots=True)
class Row:
    """One window of one topic. `produced` or `stored` is None where that tier does not count."""

    topic: str
    window: int
    window_ms: int
    produced: int | None = None
    stored: int | None = None
    missing: int = 0
    """Produced and not stored."""
    duplicate: int = 0
    """Stored and not produced: written twice, or by a producer that does not count."""
    late: int = 0
    """Produced, and not yet looked for by the broker."""
    consumers: list[Consumed] = field(default_factory=list)


@dataclass(slots=True)
class AuditReport:
    """What the audit says."""

    rows: list[Row]
    notes: list[str]
    """What cannot be known, and why, in sentences."""
    lost: int = 0
    """Offsets that a broker had counted, and that are no longer in its log."""

    @property
    def missing(self) -> int:
        """Everything that is missing anywhere."""
        return self.lost + sum(
            row.missing + sum(each.missing for each in row.consumers) for row in self.rows
        )


def check(
    events: Iterable[Event],
    *,
    now: int,
    since: int | None = None,
    topic: str | None = None,
    window_ms: int = 1,
) -> AuditReport:
    """Compare the tiers; `events` are in the order of the audit topic.

    Windows are as long as the longest that a tier of the topic counts by, and at least `window_ms`.
    Those that begin before `since` are left out; for the others to be right, `events` have to go
    back further than that: tiers do not report at the same time.
    """
    by_topic: dict[str, list[Chain]] = defaultdict(list)
    notes: list[str] = []
    lost = 0
    for chain in chains(event for event in events if topic in (None, event.topic)):
        by_topic[chain.topic].append(chain)
        notes += chain.notes(now)
        for partition, begin, end in sorted(chain.lost):
            lost += end - begin
            notes.append(
                f"{chain.topic}: offsets {begin} to {end - 1} of partition {partition} were "
                "stored, but are no longer in the log"
            )
    rows: list[Row] = []
    for name in sorted(by_topic):
        rows += _TopicCheck(name, by_topic[name], now, window_ms).rows()
    if since is not None:
        rows = [row for row in rows if row.window >= since]
    return AuditReport(rows, notes, lost)


class _Side:
    """What one tier (or one consumer) tells of a topic."""

    def __init__(self, chains: Sequence[Chain], now: int, window_ms: int) -> None:
        tiers = {chain.tier for chain in chains}
        self.is_broker = Tier.BROKER in tiers
        self.reports_in_order = bool(tiers & {Tier.BROKER, Tier.SPARK_SINK})
        """True if records past the reported offsets may still be reported."""
        self.items: dict[int, list[tuple[Event, Item]]] = defaultdict(list)
        """By partition the counts, each with the event that tells it."""
        self.spans: dict[int, Span] = {}
        """By partition, between which offsets this side has reported everything."""
        for chain in chains:
            for event in chain.events:
                self._add(event, window_ms)
        running = [each.time for each in chains if each.is_open and not each.is_dead(now)]
        self.told_until = min(running, default=NOT_KNOWN)
        """The time up to which every instance that still runs has reported."""

    def _add(self, event: Event, length: int) -> None:
        for partition, first, last, n in event.counts:
            end = last + event.window_ms - 1
            item = Item(first - first % length, end - end % length, n)
            self.items[partition].append((event, item))
        for partition, (begin, end) in event.spans.items():
            if self.is_broker:  # it read the headers around what it counted as well
                begin, end = min(begin, event.sequence), max(end, event.next or 0)
            known = self.spans.get(partition, (begin, end))
            self.spans[partition] = min(begin, known[0]), max(end, known[1])

    def __bool__(self) -> bool:
        return bool(self.items or self.spans)

    def windows(self) -> dict[int, int]:
        """Records by window; what reaches over several is put into its first."""
        totals: dict[int, int] = defaultdict(int)
        for items in self.items.values():
            for _, item in items:
                totals[item.first] += item.n
        return totals


@dataclass(slots=True)
class _Difference:
    """How one side differs from the one before it, by window."""

    missing: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    duplicate: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    late: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    pairs: list[tuple[Item, Item]] = field(default_factory=list)
    unpaired_below: list[Item] = field(default_factory=list)


def _is(who: tuple[Tier, str], chain: Chain) -> bool:
    return (chain.tier, chain.name) == who


class _TopicCheck:
    """The check of one topic."""

    def __init__(self, topic: str, found: Sequence[Chain], now: int, window_ms: int) -> None:
        lengths = [event.window_ms for chain in found for event in chain.events]
        self._topic = topic
        self._window_ms = max([window_ms, *lengths])

        def side(is_in: Callable[[Chain], bool]) -> _Side:
            return _Side([chain for chain in found if is_in(chain)], now, self._window_ms)

        self._produced = side(lambda chain: chain.tier in PRODUCING)
        self._stored = side(lambda chain: chain.tier is Tier.BROKER)
        names = sorted({(each.tier, each.name) for each in found if each.tier in CONSUMING})
        self._consumers = {who: side(partial(_is, who)) for who in names}

    def rows(self) -> list[Row]:
        """All windows, in order."""
        rows: dict[int, Row] = {}

        def row(window: int) -> Row:
            found = rows.get(window)
            if found is None:
                found = rows[window] = Row(
                    self._topic,
                    window,
                    self._window_ms,
                    0 if self._produced else None,
                    0 if self._stored else None,
                    consumers=[Consumed(tier, name) for tier, name in self._consumers],
                )
            return found

        for window, n in self._produced.windows().items():
            row(window).produced = n
        for window, n in self._stored_by_window().items():
            row(window).stored = n
        if self._produced and self._stored:
            _fill_in(compare(self._produced, self._stored), row)
        source = self._stored or self._produced
        for place, side in enumerate(self._consumers.values()):
            for window, n in side.windows().items():
                row(window).consumers[place].consumed = n
            if source:
                _fill_in(compare(source, side), partial(_consumer_of, row, place))
        return [rows[window] for window in sorted(rows)]

    def _stored_by_window(self) -> dict[int, int]:
        """What a header left open, those who saw the records can tell."""
        witness = self._produced or next(iter(self._consumers.values()), None)
        if not witness:
            return self._stored.windows()
        difference = compare(witness, self._stored)
        totals: dict[int, int] = defaultdict(int)
        for seen, stored in difference.pairs:
            totals[seen.first] += stored.n
        for item in difference.unpaired_below:
            totals[item.first] += item.n
        return totals


def _consumer_of(row: Callable[[int], Row], place: int, window: int) -> Consumed:
    return row(window).consumers[place]


def _fill_in(difference: _Difference, row: Callable[[int], Row | Consumed]) -> None:
    for window, n in difference.missing.items():
        row(window).missing += n
    for window, n in difference.duplicate.items():
        row(window).duplicate += n
    for window, n in difference.late.items():
        row(window).late += n


def compare(above: _Side, below: _Side) -> _Difference:
    """What of one side is missing on the other, or there twice."""
    result = _Difference()
    for partition in above.items.keys() | below.items.keys():
        _compare_partition(above, below, partition, result)
    return result


class _Due(Enum):
    NOW = auto()
    LATER = auto()
    NEVER = auto()


def _compare_partition(above: _Side, below: _Side, partition: int, result: _Difference) -> None:
    due: dict[_Due, list[Item]] = {each: [] for each in _Due}
    for event, item in above.items.get(partition, ()):
        due[_is_due(event, below, partition)].append(item)
    settled: list[Item] = []
    ahead: list[Item] = []
    for event, item in below.items.get(partition, ()):
        (settled if _is_settled(event, above, partition) else ahead).append(item)
    # Each question has its own best answer: of what was due, as much as can be is somewhere below;
    # and of what is settled, as much as can be is something of above. One pairing can give both.
    first = match(due[_Due.NOW], (*settled, *ahead))
    second = match(due[_Due.LATER], first.extra)
    third = match(due[_Due.NEVER], second.extra)
    for item in first.missing:
        result.missing[item.first] += item.n
    for item in match([item for items in due.values() for item in items], settled).extra:
        result.duplicate[item.first] += item.n
    for item in second.missing:
        result.late[item.first] += item.n
    for matched in (first, second, third):
        result.pairs += matched.pairs
    result.unpaired_below += third.extra


def _is_due(event: Event, below: _Side, partition: int) -> _Due:
    """Whether the side below has reported everything around the records of an event."""
    span = event.spans.get(partition)
    if span is None:
        return _Due.NOW  # without offsets (acks=0) nothing better is known
    reported = below.spans.get(partition)
    if reported is None or (reported[0] <= span[0] and span[1] > reported[1]):
        return _Due.LATER
    return _Due.NOW if reported[0] <= span[0] else _Due.NEVER


def _is_settled(event: Event, above: _Side, partition: int) -> bool:
    """True where the side above has reported everything that the records of an event can be."""
    span = event.spans.get(partition)
    reported = above.spans.get(partition)
    if span is None or reported is None or span[0] < reported[0]:
        return False
    if above.reports_in_order and span[1] > reported[1]:
        return False
    # Of several producers one may be slower to report than another.
    return event.time <= above.told_until
