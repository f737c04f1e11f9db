"""Which leader epoch began at which offset: how replicas and consumers find where logs diverge.

Rules kept here (KIP-101, KIP-279):
1. Epochs and their start offsets both grow. A new entry removes those it contradicts.
2. An epoch ends where the next one begins, the last one at the end of the log.
3. The file `leader-epoch-checkpoint` (version 0, a count, lines of "epoch start-offset") is written
   when the log is flushed: every batch carries its epoch, so the scan after a crash restores what
   lies past the recovery point.
"""

from bisect import bisect_right

from ottla.log.storage.checkpoint import CorruptCheckpoint, decode_lines, encode_lines

FILE_NAME = "leader-epoch-checkpoint"
NO_EPOCH = -1


class LeaderEpochFileCache:
    """The epochs of one log, oldest first."""

    __slots__ = ("dirty", "epochs", "latest", "starts")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self.epochs: list[int] = []
        self.starts: list[int] = []
        self.latest = NO_EPOCH
        for epoch, start in entries or ():
            self.assign(epoch, start)
        self.dirty = False
        """True if the file does not hold what is here."""

    @classmethod
    def from_bytes(cls, data: bytes) -> "LeaderEpochFileCache":
        """Read the file's bytes; raises CorruptCheckpoint."""
        entries = []
        for words in decode_lines(data):
            if len(words) != 2:
                raise CorruptCheckpoint(f"not an epoch and an offset: {' '.join(words)!r}")
            entries.append((int(words[0]), int(words[1])))
        return cls(entries)

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        return encode_lines([f"{epoch} {start}" for epoch, start in self.entries()])

    def entries(self) -> list[tuple[int, int]]:
        """Epochs with their start offsets."""
        return list(zip(self.epochs, self.starts, strict=True))

    def assign(self, epoch: int, start: int) -> None:
        """A leader of this epoch begins to write at this offset."""
        if self.epochs and epoch == self.latest and start >= self.starts[-1]:
            return
        while self.epochs and (self.epochs[-1] >= epoch or self.starts[-1] >= start):
            self.epochs.pop()
            self.starts.pop()
        self.epochs.append(epoch)
        self.starts.append(start)
        self._changed()

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int] | None:
        """The largest known epoch up to the asked one and its end offset, as OffsetForLeaderEpoch.

        None if the log knows nothing of it: the epoch is undefined or newer than the log's.
        """
        if epoch < 0 or epoch > self.latest:
            return None
        if epoch == self.latest:
            return epoch, log_end
        after = bisect_right(self.epochs, epoch)
        return (self.epochs[after - 1] if after else epoch), self.starts[after]

    def epoch_of(self, offset: int) -> int:
        """The epoch of the leader that wrote an offset, -1 if it is not known."""
        at = bisect_right(self.starts, offset) - 1
        return self.epochs[at] if at >= 0 else NO_EPOCH

    def truncate_from_end(self, offset: int) -> None:
        """The log now ends at this offset."""
        if self.starts and self.starts[-1] >= offset:
            while self.starts and self.starts[-1] >= offset:
                self.epochs.pop()
                self.starts.pop()
            self._changed()

    def truncate_from_start(self, offset: int) -> None:
        """The log now starts at this offset; the epoch that wrote it is kept, from there on."""
        drop = bisect_right(self.starts, offset) - 1
        if drop >= 0 and (drop > 0 or self.starts[0] != offset):
            del self.epochs[:drop], self.starts[:drop]
            self.starts[0] = offset
            self._changed()

    def clear(self) -> None:
        """The log is empty."""
        if self.epochs:
            self.epochs.clear()
            self.starts.clear()
            self._changed()

    def _changed(self) -> None:
        self.latest = self.epochs[-1] if self.epochs else NO_EPOCH
        self.dirty = True
