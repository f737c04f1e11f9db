"""What the transaction coordinator asks of its runtime, beside what `shard` has.

Rules kept by the runtime:
1. For each TxnMarkers it sends WriteTxnMarkers to the leaders of the partitions, and reports each
   partition's outcome once, through `markers_written`: in one call or in several. A leader that
   cannot be reached is an outcome too (NETWORK_EXCEPTION, say). A partition that the metadata no
   longer has needs no marker: NONE.
2. On NeedsProducerId it gets a producer id that nobody has, and makes the same call again with it.
   A timer that was set again meanwhile does not fire: another transaction has begun.
"""

from ottla.coordinator.shard import Effect
from ottla.coordinator.transactions.state import TransactionPartition


class NeedsProducerId(Exception):  # noqa: N818 - a question to the caller, not a failure
    """Call again with `new_producer_id`. Nothing was decided, nothing has changed."""


class TxnMarkers(Effect, frozen=True, gc=False):
    """Write the markers of one transaction's end."""

    transactional_id: str
    decision: int
    """Tells this end from any other of the shard."""
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    """As WriteTxnMarkers 2 has it: from 2 on, the epoch is one that the producer never used."""
    partitions: tuple[TransactionPartition, ...]
    """Those of `__consumer_offsets` stand for the groups whose offsets the transaction commits."""
