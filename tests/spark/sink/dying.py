"""Deaths of the processes that write: at each step, and in the middle of ending transactions.

The sink ends all transactions of a batch with requests that leave together. A death after the first
of them has no step in production code: here the first alone is ended, and then the process dies.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

from ottla.client.transactional import EndTxnResult, TransactionKey, Transactions
from pyspark_ottla.sink import steps
from pyspark_ottla.sink.steps import CommitStep


class Between(StrEnum):
    """Moments between two steps."""

    HALF_ENDED = "commit: the first transaction is ended, others are not"


Moment = CommitStep | Between


def die_at(
    where: Moment,
    die: Callable[[], object],
    replace: Callable[[object, str, object], None] = setattr,
) -> None:
    """Have `die` called at a moment; `replace` puts the hooks in their places."""
    end_all = Transactions.end
    is_prepared = False

    def reached(step: CommitStep) -> None:
        nonlocal is_prepared
        is_prepared = step is CommitStep.PREPARED
        if step is where:
            die()

    def end(
        self: Transactions, keys: Sequence[TransactionKey], *, commit: bool, end_txn_version: int
    ) -> dict[TransactionKey, EndTxnResult]:
        if where is Between.HALF_ENDED and is_prepared and commit:
            end_all(self, keys[:1], commit=True, end_txn_version=end_txn_version)
            die()
        return end_all(self, keys, commit=commit, end_txn_version=end_txn_version)

    replace(steps, "reached", reached)
    replace(Transactions, "end", end)
