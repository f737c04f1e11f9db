"""Counters of share groups, by Kafka's names: ShareGroupMetrics, SharePartitionMetrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ottla.broker.sharing.persister import ShareKey
from ottla.share.states import Acknowledgement, AcknowledgeType


class ShareMetrics:
    """What the share partitions of a broker have done."""

    def __init__(self) -> None:
        self.acknowledged: Counter[AcknowledgeType] = Counter()
        """RecordAcknowledgementsPerSec, by kind."""
        self.lock_timeouts: Counter[ShareKey] = Counter()
        """AcquisitionLockTimeoutPerSec."""
        self.loads = 0
        self.load_ms = 0
        """PartitionLoadTimeMs: of all loads together."""
        self.expired_fetches = 0
        """ExpiresPerSec of delayed share fetches."""

    def loaded(self, took_ms: int) -> None:
        """A share partition was loaded."""
        self.loads += 1
        self.load_ms += took_ms

    def timed_out(self, key: ShareKey, records: int) -> None:
        """Locks have ended."""
        if records:
            self.lock_timeouts[key] += records

    def stored(self, given: Iterable[Acknowledgement]) -> None:
        """Acknowledgements were stored."""
        for first, last, types in given:
            if len(types) == 1:
                self.acknowledged[AcknowledgeType(types[0])] += last - first + 1
            else:
                self.acknowledged.update(AcknowledgeType(kind) for kind in types)

    def dropped(self, key: ShareKey) -> None:
        """A share partition is no longer served."""
        self.lock_timeouts.pop(key, None)
