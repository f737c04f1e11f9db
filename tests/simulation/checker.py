"""What must never happen, checked at every step that could make it so.

1. A committed entry (below a high watermark that anyone has) is the same wherever it is read, and
   the leader of every later epoch has it. So no acknowledged acks=all record is lost. Everyone in
   the ISR has it at any time.
2. What is committed has `min.insync.replicas` copies. acks=all is acknowledged for committed
   entries alone, acks=1 never by a broker whose session has ended.
3. A leader epoch has one leader, in one of its lives.
4. A reader gets committed entries alone. "Latest" never falls behind what an earlier leader showed.
5. A follower gives up nothing below its high watermark.
6. What a deposed controller commits is not accepted.
7. When the faults end, every partition is led, all replicas are in sync, and their logs are equal.

With unclean elections records may be lost, so 1, 4 and 5 are not asked for. Where machines die and
lose what was not flushed, or replicas move and leave their copies behind, copies are not counted.
"""

from collections.abc import Callable, Iterable

from ottla.metadata.image import PartitionKey

from .log import Entry, SimulatedLog
from .world import Violation, World


class Checker:
    """What is known to be committed, and who led when."""

    def __init__(self, world: World, *, unclean: bool, copies_stay: bool) -> None:
        self.world = world
        self.unclean = unclean
        self.copies_stay = copies_stay
        self.committed: dict[PartitionKey, dict[int, Entry]] = {}
        self.committed_in: dict[PartitionKey, dict[int, int]] = {}
        """The first leader epoch in which an entry was known to be committed."""
        self.leaders: dict[tuple[PartitionKey, int], tuple[int, int]] = {}
        self.shown: dict[PartitionKey, dict[int, int]] = {}
        self.members_of: Callable[[PartitionKey], list[tuple[int, SimulatedLog]]]
        self.logs_of: Callable[[PartitionKey], list[SimulatedLog]]
        self.acknowledged = 0
        self.acknowledged_once = 0
        self.read = 0

    def fail(self, what: str) -> None:
        """It has happened."""
        self.world.say(f"VIOLATION: {what}")
        raise Violation(f"at {self.world.now}: {what}")

    def leads(
        self, key: PartitionKey, epoch: int, broker: int, broker_epoch: int, log: SimulatedLog
    ) -> None:
        """A broker begins to lead."""
        term = self.leaders.setdefault((key, epoch), (broker, broker_epoch))
        if term != (broker, broker_epoch):
            self.fail(f"{key} has two leaders in epoch {epoch}: {term}, {(broker, broker_epoch)}")
        if not self.unclean:
            committed = self.committed.get(key, {})
            for offset, since in self.committed_in.get(key, {}).items():
                entry = committed[offset]
                if since < epoch and offset >= log.start and log.at(offset) != entry:
                    self.fail(f"{key}: leader {broker} of {epoch} lacks {entry} at {offset}")

    def high_watermark(
        self, key: PartitionKey, epoch: int, log: SimulatedLog, old: int, new: int
    ) -> None:
        """A high watermark has grown, as the leader of an epoch says."""
        committed = self.committed.setdefault(key, {})
        since = self.committed_in.setdefault(key, {})
        for offset in range(max(old, log.start), new):
            entry = log.at(offset)
            if entry is None:
                self.fail(f"{key}: a high watermark {new} past the log's end {log.end}")
            elif committed.setdefault(offset, entry) != entry and not self.unclean:
                self.fail(f"{key}: {entry} at {offset}, committed was {committed[offset]}")
            since[offset] = min(epoch, since.get(offset, epoch))

    def copies(self, key: PartitionKey, old: int, new: int, least: int) -> None:
        """A leader says that entries are committed: everyone in sync has them, and enough do."""
        if self.unclean:
            return
        self.in_sync_have(key, range(old, new))
        if not self.copies_stay:
            return
        for offset in range(old, new):
            entry = self.committed[key].get(offset)
            logs = self.logs_of(key)
            if sum(log.start > offset or log.at(offset) == entry for log in logs) < least:
                self.fail(f"{key}: {entry} is committed with fewer than {least} copies")

    def in_sync_have(self, key: PartitionKey, offsets: Iterable[int]) -> None:
        """Whom the store names as in sync, in that life of theirs, has what is committed."""
        if self.unclean:
            return
        committed = self.committed.get(key, {})
        for member, log in self.members_of(key):
            for offset in offsets:
                entry = committed.get(offset)
                if offset >= log.start and log.at(offset) != entry:
                    self.fail(f"{key}: {member} is in sync and lacks {entry} at {offset}")

    def acknowledges(self, key: PartitionKey, offset: int, value: str) -> None:
        """An acks=all record is acknowledged."""
        self.acknowledged += 1
        entry = self.committed.get(key, {}).get(offset)
        if not self.unclean and (entry is None or entry[1] != value):
            self.fail(f"{key}: {value} at {offset} is acknowledged, {entry} is committed")

    def acknowledges_once(self, key: PartitionKey, broker: int, session_lives: bool) -> None:
        """An acks=1 record is acknowledged."""
        self.acknowledged_once += 1
        if not session_lives:
            self.fail(f"{key}: {broker} acknowledges acks=1 after its session has ended")

    def reads(self, key: PartitionKey, offset: int, entry: Entry) -> None:
        """A reader gets a record."""
        self.read += 1
        if not self.unclean and self.committed.get(key, {}).get(offset) != entry:
            self.fail(f"{key}: {entry} at {offset} was read and is not committed")

    def shows_latest(self, key: PartitionKey, epoch: int, latest: int) -> None:
        """A leader says where its log ends."""
        shown = self.shown.setdefault(key, {})
        shown[epoch] = max(latest, shown.get(epoch, 0))
        before = max((end for other, end in shown.items() if other < epoch), default=0)
        if latest < before and not self.unclean:
            self.fail(f"{key}: the leader of {epoch} shows {latest}, an earlier one {before}")

    def truncates(self, key: PartitionKey, broker: int, to: int, high_watermark: int) -> None:
        """A follower gives up the end of its log."""
        if to < high_watermark and not self.unclean:
            self.fail(f"{key}: {broker} truncates to {to}, below {high_watermark}")

    def halts(self, key: PartitionKey, broker: int) -> None:
        """A follower finds that its leader lacks what is committed."""
        if not self.unclean:
            self.fail(f"{key}: the leader of {broker} lacks what is committed")

    def controls(self, decided_under: int, current: int | None) -> None:
        """A controller's commit has been accepted."""
        if decided_under != current:
            self.fail(f"a controller of epoch {decided_under} commits in epoch {current}")
