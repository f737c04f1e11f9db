"""Which partitions of a decided transaction still wait for its marker. Kept in memory only.

| a partition's answer                                     | what follows                       |
|----------------------------------------------------------|------------------------------------|
| NONE                                                     | it has its marker                  |
| INVALID_PRODUCER_EPOCH: it has seen a later epoch of the | the transaction is over there, it  |
| producer                                                 | needs no marker                    |
| UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_VERSION      | it needs no marker: it can have no |
|                                                          | part of a transaction              |
| TRANSACTION_COORDINATOR_FENCED                           | nothing: a later coordinator has   |
|                                                          | loaded the decision, and carries   |
|                                                          | it out                             |
| all others                                               | it is asked again, without end: a  |
|                                                          | decision is not given up           |
"""

from collections.abc import Iterable, Mapping

from ottla.coordinator.transactions.state import TransactionPartition
from ottla.wire.errors import ErrorCode

FIRST_RETRY_MS = 100
LAST_RETRY_MS = 1_600
"""A partition may lack a leader, or replicas, for hours: each try comes later than the one before,
up to this."""

NEEDS_NO_MARKER = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


class Unmarked:
    """The partitions that are not known to have their marker."""

    __slots__ = ("_failed", "decision", "partitions", "retry_ms")

    def __init__(self, decision: int, partitions: Iterable[TransactionPartition]) -> None:
        self.decision = decision
        self.partitions = set(partitions)
        self.retry_ms = FIRST_RETRY_MS
        """How long to wait before what failed is asked for again."""
        self._failed: set[TransactionPartition] = set()

    def take(self, outcomes: Mapping[TransactionPartition, int]) -> bool:
        """Take in answers. True if there are now failures where there were none."""
        had_failures = bool(self._failed)
        for partition, code in outcomes.items():
            if code in NEEDS_NO_MARKER:
                self.partitions.discard(partition)
                self._failed.discard(partition)
            elif code != ErrorCode.TRANSACTION_COORDINATOR_FENCED and partition in self.partitions:
                self._failed.add(partition)
        return not had_failures and bool(self._failed)

    def take_failed(self) -> set[TransactionPartition]:
        """The partitions to be asked again, each once for each failure."""
        failed, self._failed = self._failed, set()
        self.retry_ms = min(2 * self.retry_ms, LAST_RETRY_MS)
        return failed
