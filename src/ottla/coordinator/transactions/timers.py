"""The timers of a transaction coordinator."""

from enum import Enum
from typing import NamedTuple


class TransactionTimerKind(Enum):
    """What happens when the time is up."""

    TRANSACTION_TIMEOUT = "an open transaction is aborted"
    MARKER_RETRY = "markers that could not be written are asked for again"
    ID_EXPIRATION = "transactional ids that were not used for long are forgotten"


class TransactionTimer(NamedTuple):
    """The key of a timer."""

    kind: TransactionTimerKind
    transactional_id: str = ""
