"""What InitProducerId gives to a producer with a transactional id.

Rules kept here:
1. Each producer gets an epoch above all that were given before, so that those who had them are
   fenced. When the epochs of a producer id are used up, it gets a new producer id.
2. A producer that states the id and epoch it has (KIP-360) wants to continue after an error. It is
   fenced if another one was given the transactional id since; its retry gets the same answer.
3. An open transaction is aborted first, and while one is being ended nothing is given: the
   client gets CONCURRENT_TRANSACTIONS, and asks again.

| transactional id | answer                                                                   |
|------------------|--------------------------------------------------------------------------|
| not known        | a new producer id with epoch 0, whatever the producer states             |
| Prepare...       | CONCURRENT_TRANSACTIONS                                                  |
| Ongoing          | abort; CONCURRENT_TRANSACTIONS; PRODUCER_FENCED for a foreign producer id |
| all others       | the next epoch; PRODUCER_FENCED for a foreign producer id or epoch       |
"""

from ottla.coordinator.transactions.effects import NeedsProducerId
from ottla.coordinator.transactions.state import (
    DECIDED,
    LAST_CLIENT_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
)
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest


def check_timeout(timeout_ms: int, transaction_max_timeout_ms: int) -> None:
    """Refuse a timeout that no transaction can have; raises KafkaError."""
    if not 0 < timeout_ms <= transaction_max_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)


def initialized(
    before: Transaction | None,
    request: InitProducerIdRequest,
    transaction_max_timeout_ms: int,
    now: int,
    new_producer_id: int | None,
) -> Transaction | None:
    """What the producer gets; None where an open transaction is to be aborted first.

    Raises KafkaError, and NeedsProducerId where there is no new producer id.
    """
    expected_epoch: int | None = request.producer_epoch
    if request.producer_epoch == NO_PRODUCER_EPOCH:
        expected_epoch = None
    if (expected_epoch is None) != (request.producer_id == NO_PRODUCER_ID):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    timeout_ms = request.transaction_timeout_ms
    check_timeout(timeout_ms, transaction_max_timeout_ms)
    if before is None:
        producer_id = needed(new_producer_id)
        return Transaction(
            transactional_id=request.transactional_id,
            producer_id=producer_id,
            previous_producer_id=producer_id,
            producer_epoch=0,
            timeout_ms=timeout_ms,
            last_update_ms=now,
        )
    if before.state in DECIDED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected_epoch is not None and not _was_given(before, request):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if before.state is TransactionState.ONGOING:
        return None
    if before.epochs_are_used_up and expected_epoch in (None, before.producer_epoch):
        return before.rotated(needed(new_producer_id), expected_epoch, timeout_ms, now)
    return before.initialized(expected_epoch, timeout_ms, now)


def needed(new_producer_id: int | None) -> int:
    """The new producer id, or the question for one."""
    if new_producer_id is None:
        raise NeedsProducerId
    return new_producer_id


def _was_given(transaction: Transaction, request: InitProducerIdRequest) -> bool:
    """True for the current producer id, and for a retry by the one from which it took over."""
    return request.producer_id == transaction.producer_id or (
        request.producer_id == transaction.previous_producer_id
        and request.producer_epoch >= LAST_CLIENT_EPOCH
    )
