"""What compaction knows of transactions while it reads a log.

Rules kept here (Kafka's CleanedTransactionMetadata, KIP-534):
1. Every batch of an aborted transaction may go at once: no reader may see it.
2. A marker may go only where no batch of its transaction was met on the way, not even an empty one:
   without its marker a transaction would look as if it were still open. So a marker outlives its
   transaction by at least one pass.
3. An aborted transaction stays in the index as long as its marker has batches to close.
4. Batches come in the order of their offsets, and nothing is asked past the last stable offset, so
   every transaction that is met is decided.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from ottla.log.segments.txn_index import AbortedTransaction
from ottla.records.control import MarkerType, decode_marker
from ottla.wire.batch import TRANSACTIONAL, BatchHeader


class CleanedTransactions:
    """The transactions that are open at the batch where compaction is."""

    def __init__(self) -> None:
        self._to_come: list[tuple[int, AbortedTransaction]] = []
        """A heap by first offset."""
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_batches: set[int] = set()
        """Producers with a transaction of which a batch was met."""
        self.retained: list[AbortedTransaction] = []
        """Aborted transactions that stay in the index; the writer of the index takes them out."""

    def will_abort(self, transactions: Iterable[AbortedTransaction]) -> None:
        """These transactions are met from here on. Saying so twice of one is harmless."""
        for each in transactions:
            heappush(self._to_come, (each.first_offset, each))

    def _come_to(self, offset: int) -> None:
        to_come = self._to_come
        while to_come and to_come[0][0] <= offset:
            transaction = heappop(to_come)[1]
            self._aborted[transaction.producer_id] = transaction

    def meet_batch(self, header: BatchHeader) -> bool:
        """A batch of records; True if its transaction was aborted."""
        if self._to_come:
            self._come_to(header.last_offset)
        if not header.attributes & TRANSACTIONAL:
            return False
        self._with_batches.add(header.producer_id)
        aborted = self._aborted.get(header.producer_id)
        # An index entry whose marker is missing must not make later transactions look aborted.
        return aborted is not None and header.base_offset < aborted.last_offset

    def meet_marker(self, header: BatchHeader, batch: memoryview) -> bool:
        """A marker; True if nothing is left of its transaction, and the marker may go."""
        self._come_to(header.last_offset)
        if header.record_count == 0:
            return True  # all of it went earlier, and so did the marker itself
        marker = decode_marker(batch)
        has_batches = marker.producer_id in self._with_batches
        self._with_batches.discard(marker.producer_id)
        if marker.type == MarkerType.ABORT:
            transaction = self._aborted.pop(marker.producer_id, None)
            if transaction is not None and has_batches:
                self.retained.append(transaction)
        return not has_batches
