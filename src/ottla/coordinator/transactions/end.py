"""Whether an EndTxn may end a transaction: who may, what is a retry, and what is refused.

Versions 0 to 4 (transaction version 1) keep the epoch over many transactions. The last outcome is
confirmed to every retry; nothing tells a retry from a second, empty transaction.

| version 1      | abort                   | commit                  |
|----------------|-------------------------|-------------------------|
| Empty          | INVALID_TXN_STATE       | INVALID_TXN_STATE       |
| Ongoing        | end                     | end                     |
| Prepare...     | CONCURRENT_TRANSACTIONS | CONCURRENT_TRANSACTIONS |
| CompleteAbort  | confirm                 | INVALID_TXN_STATE       |
| CompleteCommit | INVALID_TXN_STATE       | confirm                 |

From version 5 (transaction version 2, KIP-890) each end raises the epoch, so that a retry is known
by the epoch before. An abort with the current epoch ends a transaction that may have nothing in
it: the client cannot know whether its first write arrived.

| version 2      | abort, retry      | abort, current | commit, retry     | commit, current   |
|----------------|-------------------|----------------|-------------------|-------------------|
| Empty          | PRODUCER_FENCED   | end            | PRODUCER_FENCED   | INVALID_TXN_STATE |
| Ongoing        | PRODUCER_FENCED   | end            | PRODUCER_FENCED   | end               |
| Prepare...     | CONCURRENT_TRANSACTIONS, for every request                               |
| CompleteAbort  | confirm           | end            | INVALID_TXN_STATE | INVALID_TXN_STATE |
| CompleteCommit | INVALID_TXN_STATE | end            | confirm           | INVALID_TXN_STATE |

In both, before the table: another producer id is INVALID_PRODUCER_ID_MAPPING, and then another
epoch PRODUCER_FENCED. In Prepare... Kafka always has the completion pending, which version 2 looks
at before the producer, and version 1 after it; so does this.
"""

from ottla.coordinator.transactions.state import (
    DECIDED,
    EPOCH_BUMP_VERSION,
    LAST_CLIENT_EPOCH,
    Transaction,
    TransactionState,
)
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.end_txn import EndTxnRequest


def is_to_be_ended(transaction: Transaction, request: EndTxnRequest, version: int) -> bool:
    """True if the request ends the transaction, False if it confirms an end that was.

    The version is the transaction version, 2 or less. Raises KafkaError.
    """
    if version >= EPOCH_BUMP_VERSION:
        return _is_to_be_ended_in_version_2(transaction, request)
    return _is_to_be_ended_in_version_1(transaction, request)


def _is_to_be_ended_in_version_1(transaction: Transaction, request: EndTxnRequest) -> bool:
    if request.producer_id != transaction.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.producer_epoch != transaction.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state in DECIDED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is TransactionState.ONGOING:
        return True
    if transaction.state is _outcome(request):
        return False
    raise _wrong_state(transaction, request)


def _is_to_be_ended_in_version_2(transaction: Transaction, request: EndTxnRequest) -> bool:
    if transaction.state in DECIDED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    # The retry of an end after which a new producer id took over.
    retry_over_rotation = (
        request.producer_id == transaction.previous_producer_id
        and request.producer_epoch == LAST_CLIENT_EPOCH
        and transaction.producer_epoch == 0
    )
    if request.producer_id != transaction.producer_id and not retry_over_rotation:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_current = request.producer_epoch == transaction.producer_epoch
    is_retry = retry_over_rotation or request.producer_epoch + 1 == transaction.producer_epoch
    was_ended = transaction.state in (
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    )
    if not (is_current or (is_retry and was_ended)):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if is_retry and transaction.state is _outcome(request):
        return False
    if not is_retry and (transaction.state is TransactionState.ONGOING or not request.committed):
        return True
    raise _wrong_state(transaction, request)


def _outcome(request: EndTxnRequest) -> TransactionState:
    if request.committed:
        return TransactionState.COMPLETE_COMMIT
    return TransactionState.COMPLETE_ABORT


def _wrong_state(transaction: Transaction, request: EndTxnRequest) -> KafkaError:
    wish = "commit" if request.committed else "abort"
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"{transaction.transactional_id!r} is {transaction.state.kafka_name} and cannot {wish}",
    )
