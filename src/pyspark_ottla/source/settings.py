"""What a source's options ask for, as plain values that can be pickled.

Rules kept here, all as in Spark's Kafka source:
1. Exactly one of subscribe, subscribePattern and assign names what is read.
2. A single timestamp goes before timestamps by partition, and those before offsets.
3. A batch cannot start at the latest offset, nor end at the earliest. A stream has no end.
4. Without an option a batch starts at the earliest offset and a stream at the latest.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Self

from msgspec import Struct

from ottla.client import ClientSettings, TopicPartition
from ottla.client.admin import EARLIEST, LATEST
from pyspark_ottla.audit import AuditSettings, audit_settings
from pyspark_ottla.errors import OptionError
from pyspark_ottla.formats.settings import FormatSettings
from pyspark_ottla.options import Options, Use, wrong
from pyspark_ottla.source.offsets import Offsets, in_words, parse_offsets, parse_partitions

DEFAULT_MAX_TRIGGER_DELAY = 15 * 60.0
MAX_PARTITION_FETCH_BYTES = 4 << 20
FETCH_MAX_BYTES = 50 << 20
FETCH_MAX_WAIT = 0.5


class Subscription(Struct, frozen=True):
    """What is read: some topics, those that fit a pattern, or some partitions."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


class NoMatch(Enum):
    """What becomes of a partition without a record as late as a timestamp."""

    ERROR = "error"
    LATEST = "latest"


class OffsetBound(Struct, frozen=True):
    """Where reading starts or ends. Exactly one of the first three is given."""

    option: str
    """The option it comes from, for errors."""
    everywhere: int | None = None
    """EARLIEST or LATEST in all partitions."""
    offsets: Offsets | None = None
    """By partition; EARLIEST and LATEST may be among them."""
    timestamp: int | None = None
    timestamps: Offsets | None = None
    no_match: NoMatch = NoMatch.LATEST


class SourceSettings(Struct, frozen=True, kw_only=True):
    """All options of a source."""

    client: ClientSettings
    subscription: Subscription
    start: OffsetBound
    end: OffsetBound
    read_committed: bool
    fail_on_data_loss: bool
    include_headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay: float
    commit_group: str | None
    audit: AuditSettings | None
    format: FormatSettings | None
    """How values are decoded; None: not at all."""
    max_partition_fetch_bytes: int
    fetch_max_bytes: int
    fetch_max_wait: float

    @classmethod
    def of(cls, given: Mapping[str, str], use: Use) -> Self:
        """Read the options of a job; OptionError where they make no sense."""
        options = Options(given, use)
        subscription = _subscription(options)
        start = _place(options, "starting", LATEST if use is Use.STREAM_READ else EARLIEST)
        end = _place(options, "ending", LATEST)
        if use is Use.BATCH_READ:
            _refuse(start, LATEST, "latest", "a batch would have nothing to read")
            _refuse(end, EARLIEST, "earliest", "a batch would have nothing to read")
            _check_order(start, end)
        smallest = options.number("minOffsetsPerTrigger")
        largest = options.number("maxOffsetsPerTrigger")
        if smallest is not None and largest is not None and smallest > largest:
            raise OptionError(
                f"option minOffsetsPerTrigger ({smallest}) is more than maxOffsetsPerTrigger "
                f"({largest})"
            )
        kafka = options.kafka
        return cls(
            client=options.client_settings(),
            subscription=subscription,
            start=start,
            end=end,
            read_committed=kafka.read_committed,
            fail_on_data_loss=options.flag("failOnDataLoss", True),
            include_headers=options.flag("includeHeaders", False),
            min_partitions=options.number("minPartitions"),
            max_records_per_partition=options.number("maxRecordsPerPartition"),
            max_offsets_per_trigger=largest,
            min_offsets_per_trigger=smallest,
            max_trigger_delay=options.seconds("maxTriggerDelay", DEFAULT_MAX_TRIGGER_DELAY),
            commit_group=_commit_group(options),
            audit=audit_settings(options, _commit_group(options)),
            format=FormatSettings.of(options, _topics(subscription)),
            max_partition_fetch_bytes=kafka.number(
                "max.partition.fetch.bytes", MAX_PARTITION_FETCH_BYTES, least=1
            ),
            fetch_max_bytes=kafka.number("fetch.max.bytes", FETCH_MAX_BYTES, least=1),
            fetch_max_wait=kafka.seconds("fetch.max.wait.ms", FETCH_MAX_WAIT),
        )


def _subscription(options: Options) -> Subscription:
    names = ("subscribe", "subscribePattern", "assign")
    given = {name: text for name in names if (text := options.text(name)) is not None}
    if len(given) != 1:
        found = f"{' and '.join(given)} were given" if given else "none was given"
        raise OptionError(f"give one of the options {', '.join(names)}: {found}")
    ((name, text),) = given.items()
    if name == "assign":
        return Subscription(partitions=tuple(parse_partitions(name, text)))
    if name == "subscribe":
        topics = sorted({topic.strip() for topic in text.split(",") if topic.strip()})
        if not topics:
            raise wrong(name, text, "names of topics, separated by commas")
        return Subscription(topics=tuple(topics))
    try:
        re.compile(text)
    except re.error as problem:
        raise wrong(name, text, f"a regular expression ({problem})") from None
    if not text:
        raise wrong(name, text, "a regular expression")
    return Subscription(pattern=text)


def _topics(subscription: Subscription) -> tuple[str, ...]:
    """The topics that are read, as far as the options name them."""
    named = {*subscription.topics, *(each.topic for each in subscription.partitions)}
    return tuple(sorted(named))


def _place(options: Options, side: str, default: int) -> OffsetBound:
    """Where reading starts ("starting") or ends ("ending")."""
    strategy = NoMatch(
        options.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    )
    no_match = strategy if side == "starting" else NoMatch.LATEST
    name = f"{side}Timestamp"
    timestamp = options.number(name, least=0)
    if timestamp is not None:
        return OffsetBound(name, timestamp=timestamp, no_match=no_match)
    name = f"{side}OffsetsByTimestamp"
    text = options.text(name)
    if text is not None:
        timestamps = parse_offsets(name, text)
        if any(value < 0 for value in timestamps.values()):
            raise wrong(name, text, "milliseconds since 1970, not below 0")
        return OffsetBound(name, timestamps=timestamps, no_match=no_match)
    name = f"{side}Offsets"
    text = options.text(name)
    if text is None:
        return OffsetBound(name, everywhere=default)
    if text.lower() in ("earliest", "latest"):
        return OffsetBound(name, everywhere=EARLIEST if text.lower() == "earliest" else LATEST)
    if not text.startswith("{"):
        raise wrong(name, text, 'earliest, latest, or JSON such as {"events":{"0":23}}')
    offsets = parse_offsets(name, text)
    if any(offset < EARLIEST for offset in offsets.values()):
        raise wrong(name, text, "offsets, with -2 for earliest and -1 for latest")
    return OffsetBound(name, offsets=offsets)


def _refuse(place: OffsetBound, refused: int, word: str, why: str) -> None:
    if place.everywhere == refused:
        raise OptionError(f"option {place.option} is {word}: {why}")
    for partition, offset in (place.offsets or {}).items():
        if offset == refused:
            raise OptionError(
                f"option {place.option} is {word} ({refused}) for {in_words([partition])}: {why}"
            )


def _check_order(start: OffsetBound, end: OffsetBound) -> None:
    for first, last in ((start.offsets, end.offsets), (start.timestamps, end.timestamps)):
        if first is None or last is None:
            continue
        if first.keys() != last.keys():
            raise OptionError(
                f"options {start.option} and {end.option} name different partitions: "
                f"{in_words(first.keys() ^ last.keys())} is in one of them only"
            )
        for partition, value in first.items():
            if 0 <= last[partition] < value:
                raise OptionError(
                    f"option {start.option} is {value} for {in_words([partition])}, after "
                    f"{end.option}, which is {last[partition]}"
                )
    if (
        start.timestamp is not None
        and end.timestamp is not None
        and start.timestamp > end.timestamp
    ):
        raise OptionError(
            f"option {start.option} ({start.timestamp}) is after {end.option} ({end.timestamp})"
        )


def _commit_group(options: Options) -> str | None:
    group = options.text("commitGroup")
    if group == "":
        raise wrong("commitGroup", group, "the name of a consumer group")
    return group
