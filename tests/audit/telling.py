"""Short ways to write audit events in tests; windows are 10 ms long."""

from collections.abc import Mapping

from ottla.audit.events import Count, Event, Span, Tier

WINDOW = 10
NOW = 1_000_000


def event(
    tier: Tier,
    counts: Mapping[tuple[int, int], int] | None = None,
    *,
    span: Span | None = None,
    name: str = "n",
    instance: str = "i",
    topic: str = "t",
    partition: int = 0,
    sequence: int | None = None,
    next: int | None = -1,  # noqa: A002 (the field's name)
    time: int = NOW,
    open: bool = False,  # noqa: A002 (the field's name)
    interval_ms: int = 0,
    lost: list[tuple[int, int, int]] | None = None,
) -> Event:
    """`counts` by first and last window; a broker's sequence is its span unless told otherwise."""
    listed: list[Count] = [(partition, *windows, n) for windows, n in (counts or {}).items()]
    if sequence is None:
        sequence = span[0] if span and tier is Tier.BROKER else 0
    if next == -1:
        next = span[1] if span and tier is Tier.BROKER else sequence + 1  # noqa: A001
    return Event(
        tier=tier,
        name=name,
        instance=instance,
        topic=topic,
        sequence=sequence,
        next=next,
        time=time,
        window_ms=WINDOW,
        counts=listed,
        spans={} if span is None else {partition: span},
        open=open,
        interval_ms=interval_ms,
        lost=lost or [],
    )


def produced(counts: Mapping[tuple[int, int], int], span: Span | None, **more: object) -> Event:
    return event(Tier.PRODUCER, counts, span=span, **more)  # type: ignore[arg-type]  # a test's shorthand


def stored(counts: Mapping[tuple[int, int], int], span: Span | None, **more: object) -> Event:
    return event(Tier.BROKER, counts, span=span, **more)  # type: ignore[arg-type]  # as above


def consumed(counts: Mapping[tuple[int, int], int], span: Span | None, **more: object) -> Event:
    return event(Tier.CONSUMER, counts, span=span, **more)  # type: ignore[arg-type]  # as above
