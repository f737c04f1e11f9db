"""What a share group asks of the runtime."""

from uuid import UUID

from ottla.coordinator.shard import Effect


class InitializeShareState(Effect, frozen=True, gc=False):
    """Initialize share partitions at the share coordinator, and report what became of it."""

    group_id: str
    state_epoch: int
    partitions: dict[UUID, frozenset[int]]
