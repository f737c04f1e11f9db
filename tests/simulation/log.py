"""A simulated log: (epoch, value) pairs with the real leader epochs beside them."""

from ottla.log.leader_epochs import LeaderEpochFileCache

Entry = tuple[int, str]


class SimulatedLog:
    """What a broker has on its disk of one partition."""

    def __init__(self) -> None:
        self.start = 0
        self.entries: list[Entry] = []
        self.epochs = LeaderEpochFileCache()
        self.flushed = 0
        self.checkpointed_high_watermark = 0
        self.offsets: dict[str, int] = {}
        """Where each value is: what an idempotent producer's state is for."""

    @property
    def end(self) -> int:
        return self.start + len(self.entries)

    def at(self, offset: int) -> Entry | None:
        """The entry at an offset, if the log reaches there."""
        return self.entries[offset - self.start] if self.start <= offset < self.end else None

    def read(self, offset: int, limit: int) -> list[Entry]:
        """Entries from an offset on."""
        return self.entries[offset - self.start : offset - self.start + limit]

    def append(self, entry: Entry) -> None:
        epoch, value = entry
        if epoch != self.epochs.latest:
            self.epochs.assign(epoch, self.end)
        self.offsets[value] = self.end
        self.entries.append(entry)

    def truncate(self, offset: int) -> None:
        """Remove what lies at or above an offset."""
        if offset >= self.end:
            self.epochs.truncate_from_end(self.end)
            return
        if offset < self.start:
            self.restart(offset)
            return
        for _, value in self.entries[offset - self.start :]:
            self.offsets.pop(value, None)
        del self.entries[offset - self.start :]
        self.epochs.truncate_from_end(offset)
        self.flushed = min(self.flushed, offset)

    def restart(self, offset: int) -> None:
        """Remove everything and begin again at an offset."""
        self.start, self.entries = offset, []
        self.offsets.clear()
        self.epochs.clear()
        self.flushed = offset

    def delete_below(self, offset: int) -> None:
        """DeleteRecords: the log begins later. Producers' state stays."""
        if offset > self.start:
            del self.entries[: offset - self.start]
            self.start = offset
            self.epochs.truncate_from_start(offset)
            self.flushed = max(self.flushed, offset)
