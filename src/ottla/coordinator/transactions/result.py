"""What the transaction coordinator and its runtime say to each other, beside what `shard` has.

Rules kept by the runtime:
1. The markers of a TxnResult are held exactly like its reply: until everything that was appended
   before is committed. A marker makes a decision known, which then must not be lost.
2. For each TxnMarkers it sends WriteTxnMarkers to the leaders of the partitions, and tells the
   shard that asked (that object, not one loaded later) each partition's outcome once, through
   `markers_written`: in one call or in several. A leader that cannot be reached is an outcome too
   (NETWORK_EXCEPTION, say). A partition that the metadata no longer has needs no marker: NONE.
3. On NeedsProducerId it gets a producer id that nobody has, and makes the same call again with it.
   A timer that was set again meanwhile does not fire: another transaction has begun.
"""

from enum import Enum
from typing import NamedTuple, TypeVar

from msgspec import field

from ottla.coordinator.shard import Result
from ottla.coordinator.transactions.state import TopicPartition

R = TypeVar("R")


class NeedsProducerId(Exception):  # noqa: N818 - a question to the caller, not a failure
    """Call again with `new_producer_id`. Nothing was decided, nothing has changed."""


class TimerKind(Enum):
    """What a shard's timers are for."""

    TRANSACTION_TIMEOUT = "transaction timeout"
    MARKER_RETRY = "marker retry"
    ID_EXPIRATION = "id expiration"


class TimerKey(NamedTuple):
    """One of a shard's timers."""

    kind: TimerKind
    transactional_id: str = ""


class TxnMarkers(NamedTuple):
    """Markers of one transaction's end."""

    transactional_id: str
    decision: int
    """Tells this end from any other of the shard."""
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    """As WriteTxnMarkers 2 has it: from 2 on, the epoch is one that the producer never used."""
    partitions: tuple[TopicPartition, ...]
    """Those of `__consumer_offsets` stand for the groups whose offsets the transaction commits."""


class TxnResult(Result[R]):
    """A Result with markers to be written."""

    markers: list[TxnMarkers] = field(default_factory=list)
