"""What must never happen, checked when clients are answered and at the end of a run.

1. An acknowledged acks=all record is at its offset wherever it is read, for as long as it was not
   deleted by request. Two values are never acknowledged at one offset.
2. A record that was read with a high watermark above it is the same for every reader.
3. A value of an idempotent producer is in the log once, and its values are in their order.
4. Offsets are read without holes, but for what was deleted. A log start moves by DeleteRecords or
   retention alone.
5. Nothing above the high watermark is sent to a reader, nor above the last stable offset with
   read_committed.
6. Replicas are equal byte for byte below the lowest high watermark, and at the end everywhere.
7. A committed transaction is visible as a whole with read_committed, an aborted one not at all, and
   one whose end is not known is either. None stays open once faults end.
8. A group's committed offset, once acknowledged, never goes back, and no member is given a lower
   one. At the end the group has read everything.
9. Once faults end everything is available again within a bounded time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ottla.records import decode_batch
from ottla.records.control import MarkerType, decode_marker
from ottla.simulation.client import TopicPartition
from ottla.simulation.world import World
from ottla.wire.batch import headers


@dataclass(slots=True)
class Transaction:
    """What a producer knows of one."""

    values: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    wanted: bool | None = None
    """Whether its commit was asked for; None: neither commit nor abort."""
    committed: bool | None = None
    """How it ended; None: not known."""


class Checker:
    """What clients were told."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.acked: dict[TopicPartition, dict[int, bytes]] = {}
        self.seen: dict[TopicPartition, dict[int, bytes]] = {}
        self.deletable: dict[TopicPartition, int] = {}
        """Up to where records were asked to be deleted."""
        self._offsets: dict[TopicPartition, dict[bytes, int]] = {}
        """Where each value was seen."""
        self._offsets_committed: dict[tuple[str, TopicPartition], int] = {}
        self.recreated: set[str] = set()
        """Topics that were deleted and created again: their transactions are not whole."""
        self.transactions: dict[str, Transaction] = {}
        self._committed: dict[TopicPartition, set[bytes]] = {}
        """The values that read_committed shows, at the end."""
        self._of_value: dict[tuple[TopicPartition, bytes], str] = {}
        self._latest: dict[tuple[TopicPartition, str, str], int] = {}
        """The last number of a producer that a reader has seen."""

    def sent(self, where: TopicPartition, values: list[bytes]) -> None:
        """Values are about to be sent."""

    def acknowledged(self, where: TopicPartition, offset: int, values: list[bytes]) -> None:
        """A batch is acknowledged with its first offset, or as a duplicate without one."""
        self.world.count("acknowledged records", len(values))
        if offset < 0:
            return
        acked = self.acked.setdefault(where, {})
        for at, value in enumerate(values, offset):
            known = acked.setdefault(at, value)
            if known != value:
                self.world.fail(f"{where}: {value!r} acknowledged at {at}, and {known!r} before")
            self._compare(where, at, value)

    def read(self, where: TopicPartition, reader: str, offset: int, value: bytes) -> None:
        """A reader got a record."""
        self.world.count("records read")
        known = self.seen.setdefault(where, {}).setdefault(offset, value)
        if known != value:
            self.world.fail(
                f"{where} at {offset}: {reader} read {value!r}, {known!r} was read before"
            )
        acked = self.acked.get(where, {}).get(offset, value)
        if acked != value:
            self.world.fail(
                f"{where} at {offset}: {reader} read {value!r}, {acked!r} was acknowledged"
            )
        at = self._offsets.setdefault(where, {}).setdefault(value, offset)
        if at != offset:
            self.world.fail(f"{where}: {value!r} is at {at} and at {offset}")
        self._in_order(where, reader, offset, value)

    def _compare(self, where: TopicPartition, offset: int, value: bytes) -> None:
        seen = self.seen.get(where, {}).get(offset, value)
        if seen != value:
            self.world.fail(f"{where} at {offset}: {value!r} acknowledged, {seen!r} was read")

    def _in_order(self, where: TopicPartition, reader: str, offset: int, value: bytes) -> None:
        producer, _, number = value.decode().rpartition(":")
        key = (where, reader, producer)
        if int(number) <= self._latest.get(key, -1):
            self.world.fail(f"{where} at {offset}: {reader} read {value!r} out of order")
        self._latest[key] = int(number)

    def passed(self, where: TopicPartition, reader: str, expected: int, found: int) -> None:
        """A reader went from one offset to the next batch."""
        if found > expected and found > self.deletable.get(where, 0):
            self.world.fail(f"{where}: {reader} asked for {expected} and got {found}")

    def out_of_range(self, where: TopicPartition, position: int, log_start: int) -> None:
        """A reader's position was refused."""
        if log_start > position and log_start > self.deletable.get(where, 0):
            self.world.fail(f"{where}: the log begins at {log_start}, no request deleted that far")

    # Transactions -------------------------------------------------------------------------

    def in_transaction(self, name: str, where: TopicPartition, value: bytes) -> None:
        """A value is about to be sent, maybe again."""
        transaction = self.transactions.setdefault(name, Transaction())
        if (where, value) not in transaction.values:
            transaction.values.append((where, value))
            self._of_value[where, value] = name

    def ending(self, name: str, *, committed: bool) -> None:
        """The end of a transaction is about to be asked for."""
        self.transactions.setdefault(name, Transaction()).wanted = committed

    def ended(self, name: str, *, committed: bool) -> None:
        """A transaction's end was answered."""
        self.world.count("transactions committed" if committed else "transactions aborted")
        self.transactions[name].committed = committed

    def unfinished_ended(self, producer: str) -> None:
        """A new epoch: what was never asked to be committed is aborted now."""
        for name, transaction in self.transactions.items():
            if name.rpartition("-")[0] == producer and not transaction.wanted:
                transaction.committed = False

    def read_committed(self, where: TopicPartition, reader: str, value: bytes) -> None:
        """A reader with read_committed got a value."""
        transaction = self.transactions.get(self._of_value.get((where, value), ""))
        if transaction is not None and (
            transaction.committed is False or transaction.wanted is False
        ):
            self.world.fail(f"{where}: {reader} read {value!r} of an aborted transaction")

    def check_transactions(self) -> None:
        """All or nothing, by what the logs hold; after `compare_replicas` of all partitions."""
        for name, transaction in self.transactions.items():
            if any(where.topic in self.recreated for where, _ in transaction.values):
                continue
            here = [self._committed.get(where, set()) for where, _ in transaction.values]
            visible = [
                value in values for (_, value), values in zip(transaction.values, here, strict=True)
            ]
            deleted = any(where in self.deletable for where, _ in transaction.values)
            if transaction.committed and not all(visible) and not deleted:
                self.world.fail(f"transaction {name} was committed, and is visible as {visible}")
            elif transaction.committed is False and any(visible):
                self.world.fail(f"transaction {name} was aborted, and is visible as {visible}")
            elif any(visible) != all(visible) and not deleted:
                self.world.fail(f"transaction {name} is visible in parts: {visible}")

    # Groups -------------------------------------------------------------------------------

    def offset_committed(self, group: str, where: TopicPartition, offset: int) -> None:
        """A commit was acknowledged."""
        self.world.count("offsets committed")
        known = self._offsets_committed.get((group, where), -1)
        self._offsets_committed[group, where] = max(known, offset)

    def committed_offset(self, group: str, where: TopicPartition) -> int:
        """The highest offset whose commit was acknowledged by now; -1 for none."""
        return self._offsets_committed.get((group, where), -1)

    def offset_fetched(
        self, group: str, where: TopicPartition, member: str, offset: int, least: int
    ) -> None:
        """A member asked for the committed offset; `least` was acknowledged before it asked."""
        if offset < least:
            self.world.fail(f"{group}, {where}: {least} was committed, {member} got {offset}")

    # At the end ---------------------------------------------------------------------------

    def compare_replicas(self, where: TopicPartition, folders: Iterable[Path]) -> None:
        """All replicas' logs on disk: equal, and with everything that was acknowledged."""
        logs = {folder: read_log(folder) for folder in folders}
        if not logs:
            self.world.fail(f"{where}: no replica has a log")
            return
        start = max(min(log, default=0) for log in logs.values())
        contents = [
            {offset: batch for offset, batch in log.items() if offset >= start}
            for log in logs.values()
        ]
        for folder, content in zip(logs, contents, strict=True):
            if content != contents[0]:
                differ = sorted(content.items() ^ contents[0].items())
                self.world.fail(
                    f"{where}: the logs of {folder.parent.name} and {next(iter(logs)).parent.name} "
                    f"differ at {differ[0][0]}"
                )
                return
        self._has_all(where, start, contents[0])

    def _has_all(self, where: TopicPartition, start: int, batches: dict[int, bytes]) -> None:
        values: dict[int, bytes] = {}
        once: dict[bytes, int] = {}
        committed = self._committed.setdefault(where, set())
        unfinished: dict[int, set[bytes]] = {}
        for _, batch in sorted(batches.items()):
            for _, header in headers(memoryview(batch)):
                if header.is_control:
                    ended = unfinished.pop(header.producer_id, set())
                    if decode_marker(batch).type == MarkerType.COMMIT:
                        committed |= ended
                    continue
                for record in decode_batch(batch):
                    value = record.value or b""
                    values[record.offset] = value
                    if header.is_transactional:
                        unfinished.setdefault(header.producer_id, set()).add(value)
                    at = once.setdefault(value, record.offset)
                    if at != record.offset:
                        self.world.fail(f"{where}: {value!r} is at {at} and at {record.offset}")
        if unfinished:
            self.world.fail(f"{where}: transactions are open at the end: {sorted(unfinished)}")
        for offset, value in sorted(self.acked.get(where, {}).items()):
            if offset >= start and values.get(offset) != value:
                self.world.fail(
                    f"{where} at {offset}: {value!r} was acknowledged, "
                    f"the log has {values.get(offset)!r}"
                )
                return
        first = min(self.acked.get(where, {}), default=start)
        if start > first and start > self.deletable.get(where, 0):
            self.world.fail(f"{where}: the log begins at {start}, no request deleted that far")


def read_log(folder: Path) -> dict[int, bytes]:
    """The batches of a log on disk, by their base offset."""
    batches: dict[int, bytes] = {}
    for path in sorted(folder.glob("*.log")):
        view = memoryview(path.read_bytes())
        for at, header in headers(view):
            batches[header.base_offset] = bytes(view[at : at + header.size])
    return batches
