"""The state of one share partition, and what its records change in it.

Rules kept here:
1. A snapshot replaces the state; an update is merged into it. The order in which updates arrive
   does not matter: batches by their delivery counts and states, and the start offset never moves
   back, because writes that were sent again can overtake each other. Only a snapshot moves it back.
2. Leader epoch and state epoch never fall while the state exists: they are what older leaders and
   older initializations are fenced by, also after a replay that begins with the last snapshot.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ottla.coordinator.share_state.batches import StateBatch, combined
from ottla.coordinator.share_state.records import (
    BatchPart,
    ShareSnapshotValue,
    ShareUpdateValue,
    parts,
)

NO_OFFSET = -1
NO_COUNT = -1


class ShareState(Struct, frozen=True):
    """One share partition."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NO_OFFSET
    delivery_complete_count: int = NO_COUNT
    batches: tuple[StateBatch, ...] = ()
    created_at: int = 0
    written_at: int = 0
    updates: int = 0
    """How many updates came since the last snapshot."""

    def to_snapshot(self, now: int) -> ShareSnapshotValue:
        """The next snapshot of it."""
        return ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch + 1,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp=self.created_at,
            write_timestamp=now,
            state_batches=parts(self.batches),
        )

    def updated(self, value: ShareUpdateValue) -> "ShareState":
        """The state after an update."""
        start = max(self.start_offset, value.start_offset)
        is_late = NO_OFFSET < value.start_offset < self.start_offset
        complete = self.delivery_complete_count if is_late else value.delivery_complete_count
        return replace(
            self,
            leader_epoch=max(self.leader_epoch, value.leader_epoch),
            start_offset=start,
            delivery_complete_count=complete,
            batches=combined([*self.batches, *_read(value.state_batches)], start),
            updates=self.updates + 1,
        )


def from_snapshot(value: ShareSnapshotValue, before: ShareState | None) -> ShareState:
    """The state that a snapshot says."""
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=max(value.state_epoch, before.state_epoch if before else -1),
        leader_epoch=max(value.leader_epoch, before.leader_epoch if before else -1),
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=tuple(_read(value.state_batches)),
        created_at=value.create_timestamp,
        written_at=value.write_timestamp,
    )


def _read(batches: Iterable[BatchPart]) -> Iterable[StateBatch]:
    return (
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in batches
    )
