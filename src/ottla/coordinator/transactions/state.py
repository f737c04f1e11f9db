"""One transactional id: what is kept about it, and how it moves from state to state.

Rules kept here:
1. A Transaction is never changed: a move gives the next one. A move that the table below does not
   have raises IllegalTransitionError.
2. The epoch of a producer id stays or grows by one; a new producer id starts with epoch 0. The
   last epoch, 32767, is never given to a client: it is there so that the coordinator can fence
   the one before.
3. Partitions are only added while a transaction is open, stay as they are when it is decided, and
   are gone when it is complete.
4. A decision is carried out as it was taken: PrepareCommit is followed by CompleteCommit and
   nothing else, PrepareAbort by CompleteAbort.
5. With transaction version 2 (KIP-890) the decision raises the epoch, so that nothing that was
   sent in the transaction can arrive after its end. Where the epochs are used up, the decision
   names the producer id that takes over when it is complete.

| from, to       | Empty | Ongoing | PrepareCommit | PrepareAbort | CompleteCommit | CompleteAbort |
|----------------|-------|---------|---------------|--------------|----------------|---------------|
| (nothing)      | init  |         |               |              |                |               |
| Empty          | init  | add     |               | end, v2      |                |               |
| Ongoing        |       | add     | end           | end, fence   |                |               |
| PrepareCommit  |       |         |               |              | markers        |               |
| PrepareAbort   |       |         |               |              |                | markers       |
| CompleteCommit | init  | add     |               | end, v2      |                |               |
| CompleteAbort  | init  | add     |               | end, v2      |                |               |

init: InitProducerId. add: AddPartitionsToTxn, AddOffsetsToTxn, or a Produce or TxnOffsetCommit that
adds its partition. end: EndTxn; v2: an abort in transaction version 2, where the client cannot
know whether anything was added. fence: a timeout, or the InitProducerId of another producer.
markers: all partitions have theirs.

Kafka has two states more. PrepareEpochFence is passed while it prepares the abort of a fenced
producer, Dead while it removes an id: here each is one record, and so no state. Their names are
known, since ListTransactions accepts them, and their numbers, since a record could have them.
"""

from enum import IntEnum
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ottla.wire.errors import ErrorCode, KafkaError

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
LAST_EPOCH: Final = 32767
LAST_CLIENT_EPOCH: Final = LAST_EPOCH - 1

EPOCH_BUMP_VERSION: Final = 2
"""The transaction version from which every decision raises the epoch."""


class IllegalTransitionError(RuntimeError):
    """A move that the rules do not have: a defect of the coordinator, not of a client."""


class TransactionPartition(NamedTuple):
    """A partition that a transaction wrote to."""

    topic: str
    partition: int


class TransactionState(IntEnum):
    """The states, with the numbers that records have for them."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """As Kafka's requests and tools write it: "PrepareCommit"."""
        return _NAMES[self]


_NAMES = {state: state.name.title().replace("_", "") for state in TransactionState}
BY_NAME = {name: state for state, name in _NAMES.items()}

_EMPTY = TransactionState.EMPTY
_ONGOING = TransactionState.ONGOING
_PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
_PREPARE_ABORT = TransactionState.PREPARE_ABORT
_COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
_COMPLETE_ABORT = TransactionState.COMPLETE_ABORT

AT_REST = frozenset({_EMPTY, _COMPLETE_COMMIT, _COMPLETE_ABORT})
"""No transaction is open, and none is being ended."""
DECIDED = frozenset({_PREPARE_COMMIT, _PREPARE_ABORT})
"""The outcome is known, and not yet known to all partitions."""

NEXT: dict[TransactionState, frozenset[TransactionState]] = {
    _EMPTY: frozenset({_EMPTY, _ONGOING, _PREPARE_ABORT}),
    _ONGOING: frozenset({_ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT}),
    _PREPARE_COMMIT: frozenset({_COMPLETE_COMMIT}),
    _PREPARE_ABORT: frozenset({_COMPLETE_ABORT}),
    _COMPLETE_COMMIT: frozenset({_EMPTY, _ONGOING, _PREPARE_ABORT}),
    _COMPLETE_ABORT: frozenset({_EMPTY, _ONGOING, _PREPARE_ABORT}),
    TransactionState.DEAD: frozenset(),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset(),
}


class Transaction(Struct, frozen=True, kw_only=True):
    """A transactional id, its producer, and its transaction if there is one."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last move, mostly the same one."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id that takes over when the decision is carried out."""
    producer_epoch: int
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch whose holder was given the current one, for telling its retries from a fenced
    producer. Kafka's records have no place for it: it is lost when the partition is loaded."""
    timeout_ms: int
    state: TransactionState = _EMPTY
    partitions: frozenset[TransactionPartition] = frozenset()
    start_ms: int = -1
    last_update_ms: int
    client_transaction_version: int = 0

    @property
    def epochs_are_used_up(self) -> bool:
        """True if no client can be given a higher epoch of this producer id."""
        return self.producer_epoch >= LAST_CLIENT_EPOCH

    def time_left_ms(self, now: int) -> int:
        """How long an open transaction has before it is aborted, by the wall clock.

        Only a coordinator that has just loaded it asks: others measure the time that has passed.
        A clock that was set back gives it no more than its whole timeout.
        """
        return max(0, min(self.timeout_ms, self.start_ms + self.timeout_ms - now))

    def initialized(self, expected_epoch: int | None, timeout_ms: int, now: int) -> "Transaction":
        """After InitProducerId: ready for a producer with a new epoch.

        A producer that states the epoch it expects (KIP-360) wants to continue after an error. It
        keeps its place unless another one came since; its retry gets what it was given before.
        Raises PRODUCER_FENCED.
        """
        if expected_epoch is None:
            epoch, last_epoch = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        elif expected_epoch == self.producer_epoch:
            epoch, last_epoch = self.producer_epoch + 1, self.producer_epoch
        elif expected_epoch == self.last_producer_epoch:
            epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        else:
            raise KafkaError(
                ErrorCode.PRODUCER_FENCED,
                f"{self.transactional_id!r} has epoch {self.producer_epoch}, not {expected_epoch}",
            )
        return self._ready(self.producer_id, epoch, last_epoch, timeout_ms, now)

    def rotated(
        self, new_producer_id: int, expected_epoch: int | None, timeout_ms: int, now: int
    ) -> "Transaction":
        """After an InitProducerId that found the epochs used up: ready with a new producer id."""
        last_epoch = NO_PRODUCER_EPOCH if expected_epoch is None else self.producer_epoch
        return self._ready(new_producer_id, 0, last_epoch, timeout_ms, now)

    def joined_by(
        self, partitions: frozenset[TransactionPartition], client_transaction_version: int, now: int
    ) -> "Transaction":
        """With more partitions; the first ones open the transaction."""
        return self._moved(
            _ONGOING,
            partitions=self.partitions | partitions,
            start_ms=self.start_ms if self.state is _ONGOING else now,
            last_update_ms=now,
            client_transaction_version=client_transaction_version,
        )

    def decided(
        self, *, commit: bool, client_transaction_version: int, next_producer_id: int, now: int
    ) -> "Transaction":
        """With its outcome. An abort may find nothing open: then it is over in the same moment."""
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if client_transaction_version >= EPOCH_BUMP_VERSION:
            epoch, last_epoch = min(epoch + 1, LAST_EPOCH), epoch
        return self._moved(
            _PREPARE_COMMIT if commit else _PREPARE_ABORT,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if self.state is _ONGOING else now,
            last_update_ms=now,
            client_transaction_version=client_transaction_version,
        )

    def completed(self, now: int) -> "Transaction":
        """With its outcome known to all partitions."""
        changes: dict[str, int] = {}
        if self.next_producer_id != NO_PRODUCER_ID:
            changes = {"producer_id": self.next_producer_id, "producer_epoch": 0}
        return self._moved(
            _COMPLETE_COMMIT if self.state is _PREPARE_COMMIT else _COMPLETE_ABORT,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            last_update_ms=now,
            **changes,
        )

    def _ready(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now: int
    ) -> "Transaction":
        return self._moved(
            _EMPTY,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=-1,
            last_update_ms=now,
        )

    # The values go to `replace`, which has no better type for them.
    def _moved(self, state: TransactionState, **changes: Any) -> "Transaction":
        after = replace(self, state=state, previous_producer_id=self.producer_id, **changes)
        _check(self, after)
        return after


def _check(before: Transaction, after: Transaction) -> None:
    """Raise where a move breaks a rule."""
    legal = after.state in NEXT[before.state]
    if after.producer_id == before.producer_id:
        legal = legal and before.producer_epoch <= after.producer_epoch <= LAST_EPOCH
        legal = legal and after.producer_epoch - before.producer_epoch <= 1
    else:
        legal = legal and after.producer_epoch == 0 and after.producer_id > NO_PRODUCER_ID
    if after.state is _ONGOING:
        legal = legal and before.partitions <= after.partitions
    elif after.state in DECIDED:
        legal = legal and before.partitions == after.partitions
    else:
        legal = legal and not after.partitions
    if not legal:
        raise IllegalTransitionError(f"{before} cannot become {after}")
