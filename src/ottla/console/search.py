"""The message browser's search: which records are shown, and how far it looked.

Rules kept here:
1. Every search has a budget of records, bytes and time; when one is used up it stops and says so.
2. The answer says for each partition from where to where it looked, so that the next search
   continues there and misses nothing.
3. Records come in the order of their timestamps, as far as partitions were read alike.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, NamedTuple

from ottla.client import Admin, Client, Reader, TopicPartition
from ottla.client.admin import EARLIEST, LATEST
from ottla.records import Record

MOST_RECORDS: Final = 100_000
MOST_BYTES: Final = 64 << 20
MOST_SECONDS: Final = 5.0
FETCH_BYTES: Final = 8 << 20
PARTITION_BYTES: Final = 1 << 20


class FoundRecord(NamedTuple):
    """A record that is shown."""

    partition: int
    record: Record


class SearchedRange(NamedTuple):
    """How far a search looked in a partition: from, to before, and where the partition ends."""

    partition: int
    start: int
    stop: int
    end: int


@dataclass
class SearchResult:
    """What a search found."""

    found: list[FoundRecord] = field(default_factory=list)
    looked: list[SearchedRange] = field(default_factory=list)
    records: int = 0
    size: int = 0
    seconds: float = 0.0
    stopped_by: str = "end"
    """`end`: everything was looked at; `limit`: enough was found; or the budget that was used up:
    `records`, `bytes`, `time`.
    """

    @property
    def more(self) -> str:
        """Where the next search continues, as `read_positions` reads it; "" at the end."""
        rest = [f"{each.partition}:{each.stop}" for each in self.looked if each.stop < each.end]
        return ",".join(rest)


class RecordFilter(NamedTuple):
    """Which records match: texts that keys, values and headers contain; "" matches all."""

    key: str = ""
    value: str = ""
    header: str = ""

    @property
    def is_everything(self) -> bool:
        """True where every record matches."""
        return not (self.key or self.value or self.header)

    def matches(self, record: Record) -> bool:
        """Whether a record matches; capital letters do not matter among ASCII."""
        return (
            _contains(record.key, self.key)
            and _contains(record.value, self.value)
            and (not self.header or any(self._in_header(*each) for each in record.headers))
        )

    def _in_header(self, name: str, value: bytes | None) -> bool:
        whole = name.encode("utf-8", "replace") + b"=" + (value or b"")
        return _contains(whole, self.header)


def _contains(data: bytes | None, text: str) -> bool:
    if not text:
        return True
    return data is not None and text.encode("utf-8", "replace").lower() in data.lower()


class SearchStart(NamedTuple):
    """Where to begin: `newest`, `oldest`, `offset` or `time` with a number, or `at` positions."""

    kind: str
    number: int = 0
    positions: Mapping[int, int] = {}


def read_positions(text: str) -> dict[int, int]:
    """`0:17,1:4` as offsets by partition; ValueError."""
    found = {}
    for part in filter(None, text.split(",")):
        partition, _, offset = part.partition(":")
        if not (partition.isdecimal() and offset.isdecimal() and len(part) < 32):
            raise ValueError(part)
        found[int(partition)] = int(offset)
    return found


def search(
    client: Client,
    topic: str,
    partitions: list[int],
    start: SearchStart,
    limit: int,
    wanted: RecordFilter,
    now: Callable[[], float] = monotonic,
) -> SearchResult:
    """Look for records; raises KafkaError."""
    begun = now()
    wheres = client.led(TopicPartition(topic, index) for index in partitions)
    admin = Admin(client)
    firsts = _offsets(admin, wheres, EARLIEST)
    ends = _offsets(admin, wheres, LATEST)
    starts = _starts(admin, wheres, start, firsts, ends, limit, wanted)
    result = SearchResult()
    reached = dict(starts)
    matching: dict[TopicPartition, list[Record]] = {where: [] for where in wheres}
    open_ones = {where: at for where, at in starts.items() if at < ends[where]}
    most = limit if start.kind != "newest" else MOST_RECORDS
    until = {where: ends[where] for where in open_ones}
    stop: str | None = None
    with Reader(
        client,
        open_ones,
        until=until,
        read_committed=True,
        max_wait=0.2,
        max_bytes=FETCH_BYTES,
        partition_max_bytes=PARTITION_BYTES,
    ) as reader:
        while not reader.finished:
            stop = _spent(result, now() - begun)
            if stop is not None:
                break
            for batch in reader.poll():
                where = TopicPartition(batch.topic, batch.partition)
                for record in batch.records:
                    if len(matching[where]) >= most:
                        break
                    result.records += 1
                    result.size += _size(record)
                    reached[where] = record.offset + 1
                    if wanted.matches(record):
                        matching[where].append(record)
            for where, at in reader.positions.items():
                if len(matching[where]) < most:
                    reached[where] = max(reached[where], min(at, ends[where]))
            if start.kind != "newest" and _is_enough(matching, reached, ends, limit):
                stop = "limit"
                break
    result.seconds = now() - begun
    result.stopped_by = stop or "end"
    _choose(result, matching, starts, reached, ends, limit, newest=start.kind == "newest")
    return result


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"") + 64


def _spent(result: SearchResult, seconds: float) -> str | None:
    if result.records >= MOST_RECORDS:
        return "records"
    if result.size >= MOST_BYTES:
        return "bytes"
    return "time" if seconds >= MOST_SECONDS else None


def _offsets(admin: Admin, wheres: list[TopicPartition], spec: int) -> dict[TopicPartition, int]:
    found = admin.list_offsets(dict.fromkeys(wheres, spec), read_committed=spec == LATEST)
    return {where: found[where].offset for where in wheres}


def _starts(
    admin: Admin,
    wheres: list[TopicPartition],
    start: SearchStart,
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    limit: int,
    wanted: RecordFilter,
) -> dict[TopicPartition, int]:
    match start.kind:
        case "newest":
            back = limit if wanted.is_everything else MOST_RECORDS // max(len(wheres), 1)
            asked = {where: ends[where] - back for where in wheres}
        case "offset":
            asked = dict.fromkeys(wheres, start.number)
        case "time":
            found = _offsets(admin, wheres, start.number)
            asked = {where: at if at >= 0 else ends[where] for where, at in found.items()}
        case "at":
            asked = {where: start.positions.get(where.partition, ends[where]) for where in wheres}
        case _:
            asked = dict(firsts)
    return {where: min(max(at, firsts[where]), ends[where]) for where, at in asked.items()}


def _is_enough(
    matching: Mapping[TopicPartition, list[Record]],
    reached: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    limit: int,
) -> bool:
    """True once no record of a partition that is not read yet could be among the first ones."""
    if sum(map(len, matching.values())) < limit:
        return False
    return all(
        len(records) >= limit or records or reached[where] >= ends[where]
        for where, records in matching.items()
    )


def _choose(
    result: SearchResult,
    matching: Mapping[TopicPartition, list[Record]],
    starts: Mapping[TopicPartition, int],
    reached: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    limit: int,
    *,
    newest: bool,
) -> None:
    """Take as many as are shown; what is left out is looked at again by the next search."""
    found: list[tuple[int, int, Record]] = []
    for where, records in matching.items():
        latest = -1
        for record in records:
            # A partition's records stay in the order of their offsets, whatever their timestamps.
            latest = max(latest, record.timestamp)
            found.append((latest, where.partition, record))
    found.sort(key=lambda each: (each[0], each[1], each[2].offset))
    stops = {where.partition: at for where, at in reached.items()}
    if newest:
        chosen = found[-limit:][::-1]
    else:
        chosen = found[:limit]
        for _, partition, record in reversed(found[limit:]):
            stops[partition] = record.offset
            result.stopped_by = "limit"
    result.found = [FoundRecord(partition, record) for _, partition, record in chosen]
    result.looked = sorted(
        SearchedRange(where.partition, starts[where], stops[where.partition], ends[where])
        for where in starts
    )
