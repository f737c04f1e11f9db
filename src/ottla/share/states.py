"""The values of share groups: states of a record, kinds of acknowledgement, what is stored.

Numbers are those of the protocol and of the records of `__share_group_state`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple


class RecordState(IntEnum):
    """Where one record is in its delivery."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class AcknowledgeType(IntEnum):
    """What a consumer says of a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcquireMode(IntEnum):
    """How many records a fetch takes (KIP-1206)."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


AVAILABLE: Final = RecordState.AVAILABLE
ACQUIRED: Final = RecordState.ACQUIRED
ACKNOWLEDGED: Final = RecordState.ACKNOWLEDGED
ARCHIVED: Final = RecordState.ARCHIVED
TERMINAL: Final = (ACKNOWLEDGED, ARCHIVED)

STATE_AFTER: Final = {
    AcknowledgeType.GAP: ARCHIVED,
    AcknowledgeType.ACCEPT: ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE,
    AcknowledgeType.REJECT: ARCHIVED,
}

NOBODY: Final = ""
"""The owner of a record that is not acquired."""
NO_START_OFFSET: Final = -1
"""The start offset of a share partition that was never initialised."""


class ShareSettings(NamedTuple):
    """The settings of a group that a share partition uses."""

    delivery_count_limit: int = 5
    lock_duration_ms: int = 30_000
    max_record_locks: int = 2000
    renew_enabled: bool = True
    redelivery_delay_ms: int = 0
    """`ottla.share.redelivery.delay.ms`: how long a released record is held back."""


class StoredBatch(NamedTuple):
    """A range of records in one state, as it is stored."""

    first: int
    last: int
    state: int
    delivery_count: int


class StateWrite(NamedTuple):
    """A change to be stored. Its outcome is reported to the share partition by its number."""

    number: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StoredBatch, ...]


class Acquired(NamedTuple):
    """A range of records that a member got."""

    first: int
    last: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """What a member says of a range: one type for all, or one for each."""

    first: int
    last: int
    types: tuple[int, ...]


class LogBatch(NamedTuple):
    """One batch of the log that was read for a fetch."""

    base: int
    last: int
