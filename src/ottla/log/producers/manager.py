"""A log's producers in memory, and their snapshots on disk (Kafka's ProducerStateManager).

Rules kept here:
1. A snapshot is taken where a segment begins, when the log is closed, and at a flush when it is
   due (snapshots.py). On a full disk it is skipped: a snapshot only saves reading.
2. After a truncation the producers are reloaded from the newest snapshot that is left, and from
   the batches after it. When each was last seen is not on disk: it is kept.
"""

from ottla.log.local_log import LocalLog
from ottla.log.producers.snapshots import WEIGHT_OF_A_BATCH, ProducerSnapshots
from ottla.log.producers.states import CompletedTransaction, ProducerStates
from ottla.log.storage.files import DISK_IS_FULL
from ottla.wire.batch import BatchHeader


class ProducerStateManager:
    """The producers of one log."""

    __slots__ = ("_local", "snapshots", "states")

    def __init__(
        self, local: LocalLog, states: ProducerStates, snapshots: ProducerSnapshots
    ) -> None:
        self._local = local
        self.states = states
        self.snapshots = snapshots

    def replay(
        self, header: BatchHeader, batch: memoryview, now: int | None
    ) -> CompletedTransaction | None:
        """A batch that was checked before is in the log; returns the transaction it ended."""
        self.snapshots.behind += header.size + WEIGHT_OF_A_BATCH
        return self.states.replay(header, lambda: batch, now)

    def take_snapshot(self, offset: int) -> None:
        """Save the producers as they are at an offset."""
        local = self._local
        try:
            self.snapshots.write(offset, self.states, sync=False)
        except OSError as error:
            if error.errno not in DISK_IS_FULL:
                raise local.failed(error) from error
            local.files.on_full(str(local), error.strerror)
            return  # an older snapshot will do
        local.directory_changed = True

    def truncate_and_reload(self, end_offset: int, now: int) -> None:
        """The log now ends at an offset: go back to the producers as they were there."""
        self.snapshots.remove_after(end_offset)
        if self.states.by_id:
            last_seen = {each.producer_id: each.last_seen for each in self.states.by_id.values()}
            self.snapshots.restore(self.states, self._local.segments, end_offset)
            for producer_id, producer in self.states.by_id.items():
                producer.last_seen = last_seen.get(producer_id, now)

    def clear(self) -> None:
        """The log is empty: forget the producers and remove their snapshots."""
        self.states.clear()
        self.snapshots.remove_all_but(set())
