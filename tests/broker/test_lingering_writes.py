"""Which connections are lost when records that linger cannot be appended: only those of theirs."""

from ottla.broker.coordinators.lingering import LingeringRecords, LingeringWrites
from ottla.coordinator.shard import CoordinatorRecord

RECORD = CoordinatorRecord(b"key", b"value")


class Coordinator:
    """Appends what lingers, or fails to."""

    def __init__(self, writes: LingeringWrites, *connections: int, fails: bool = False) -> None:
        self.lingering = LingeringRecords()
        self.lingering.add([RECORD], 100)
        self.lingering.connections.update(connections)
        self._fails = fails
        writes.pending.append(self)

    def write_out(self) -> set[int]:
        if self._fails:
            self.lingering.drop()
        else:
            self.lingering.written()
        return self.lingering.take_lost()


def test_only_connections_whose_records_failed_are_lost_and_each_is_reported_once() -> None:
    writes, lost = LingeringWrites(), list[set[int]]()
    writes.on_lost = lost.append
    good = Coordinator(writes, 1, 2)
    bad = Coordinator(writes, 2, 3, fails=True)
    writes.write_out()
    assert lost == [{2, 3}]
    assert not writes.pending
    assert not good.lingering.records
    assert not bad.lingering.records
    writes.write_out()
    assert lost == [{2, 3}]


def test_nobody_is_lost_where_all_is_appended() -> None:
    writes, lost = LingeringWrites(), list[set[int]]()
    writes.on_lost = lost.append
    Coordinator(writes, 1)
    writes.write_out()
    assert lost == []


def test_a_connection_that_was_answered_before_the_failure_is_not_lost() -> None:
    lingering = LingeringRecords()
    lingering.add([RECORD], 100)
    lingering.connections.add(1)
    lingering.written()
    lingering.add([RECORD], 100)
    lingering.connections.add(2)
    lingering.drop()
    assert lingering.take_lost() == {2}
    assert lingering.take_lost() == set()


def test_dropping_nothing_loses_nobody() -> None:
    lingering = LingeringRecords()
    lingering.drop()
    assert lingering.take_lost() == set()
