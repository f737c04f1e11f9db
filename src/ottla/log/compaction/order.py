"""What the broker asks of a compaction, and what it reports: lines of JSON between two processes.

The broker names everything that only it knows: which segments are sealed, which producers are live,
what time it is. Everything else the compaction reads from the files.
"""

import json
from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One pass over one log."""

    directory: str
    segments: list[tuple[int, int]]
    """Base offset and size of every segment below `end`, oldest first."""
    later: list[int]
    """Base offsets of the segments that follow: a transaction may be aborted in one of them."""
    first_dirty: int
    """Below it no key occurs twice."""
    end: int
    """Where the first segment begins that must not be touched."""
    producers: dict[int, tuple[int, int]]
    """The last offset that each live producer wrote, -1 for none in its epoch, and that epoch."""
    now: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    memory: int
    """Bytes that the map of keys may take."""
    bytes_per_second: float
    """How much may be read and written, together."""

    def to_line(self) -> bytes:
        """The order as a line of JSON."""
        # asdict() would copy every producer twice.
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["producers"] = [(*each, producer) for producer, each in self.producers.items()]
        return json.dumps(values).encode() + b"\n"

    @classmethod
    def from_line(cls, line: str) -> "Order":
        """The order that a line of JSON holds."""
        values = json.loads(line)
        values["segments"] = [(base, size) for base, size in values["segments"]]
        values["producers"] = {
            producer: (offset, epoch) for offset, epoch, producer in values["producers"]
        }
        return cls(**values)


@dataclass(slots=True)
class Cleaned:
    """Some neighbouring segments were rewritten as one; its files end in `.cleaned`."""

    segments: list[int]
    """Base offsets of those it replaces. The new one begins where the first of them does."""
    size: int


@dataclass(slots=True)
class Finished:
    """The pass is over."""

    first_dirty: int
    """Where the next pass has to begin."""
    bytes_read: int
    bytes_written: int
    messages_read: int
    messages_written: int
    map_fullness: float
    seconds: float
    unread: int = 0
    """Batches that could not be read, and were left as they are."""


@dataclass(slots=True)
class Failed:
    """The pass was given up; what was cleaned before stays so."""

    reason: str
    errno: int | None


Reply = Cleaned | Finished | Failed

_REPLIES: dict[str, type[Reply]] = {each.__name__: each for each in (Cleaned, Finished, Failed)}


def reply_to_line(reply: Reply) -> str:
    """A reply as a line of JSON."""
    return json.dumps({"reply": type(reply).__name__, **asdict(reply)}) + "\n"


def reply_from_line(line: bytes) -> Reply:
    """The reply that a line of JSON holds."""
    values = json.loads(line)
    return _REPLIES[values.pop("reply")](**values)
