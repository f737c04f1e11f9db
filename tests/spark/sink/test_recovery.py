"""The table of recovery, the joining of lists, names and markers: decisions without a broker."""

import re

import pytest

from ottla.records import Record
from ottla.records.batches import encode_batch
from ottla.records.control import Marker as TransactionMarker
from ottla.records.control import MarkerType, encode_marker
from ottla.wire.batch import read_header
from pyspark_ottla.sink.errors import SinkError
from pyspark_ottla.sink.marker import (
    Decision,
    Done,
    MarkerReading,
    Prepared,
    SinkMarker,
    Written,
    WrittenRange,
    decode,
    encode,
)
from pyspark_ottla.sink.messages import RowsWritten, TaskReport, all_written, complete
from pyspark_ottla.sink.names import IdPool, pattern, worker_id
from pyspark_ottla.sink.recovery import Action, Merged, PartitionReport, Proof, action, merged

COMMITTED, ABORTED, OPEN, UNKNOWN = Proof.COMMITTED, Proof.ABORTED, Proof.OPEN, Proof.UNKNOWN


def written(partition: int, rows: int = 1, digest: int = 5, name: str = "id") -> Written:
    return Written(partition, name, 7, 0, rows, digest, [WrittenRange("t", 0, 0, 0, rows)])


def prepared(batch: int) -> Prepared:
    return Prepared(batch, "run", 5, [written(0), written(1)])


@pytest.mark.parametrize(
    ("decision", "proofs", "wanted"),
    [
        (None, [], Action.WRITE),
        (Done(4, "run"), [], Action.WRITE),
        (prepared(4), [], Action.WRITE),
        (Done(5, "run"), [], Action.NOTHING),
        (prepared(5), [COMMITTED, COMMITTED], Action.FINISH),
        (prepared(5), [ABORTED, ABORTED], Action.WRITE),
        (prepared(5), [COMMITTED, ABORTED], Action.REPAIR),
        (prepared(5), [COMMITTED, OPEN], Action.END_AGAIN),
        (prepared(5), [ABORTED, OPEN], Action.END_AGAIN),
        (prepared(5), [COMMITTED, UNKNOWN], Action.UNKNOWN),
        (prepared(5), [OPEN, UNKNOWN], Action.UNKNOWN),
        (Done(6, "run"), [], Action.ROLLED_BACK),
        (prepared(6), [], Action.ROLLED_BACK),
    ],
)
def test_the_table_of_recovery(
    decision: Decision | None, proofs: list[Proof], wanted: Action
) -> None:
    assert action(decision, 5, proofs) is wanted


def report(partition: int, own: Written | None, rows: int = 1, digest: int = 5) -> PartitionReport:
    return PartitionReport(partition, rows, digest, own)


def test_without_an_earlier_list_all_that_was_written_is_committed() -> None:
    mine = [written(0, name="a"), written(1, name="b")]
    reports = [report(0, mine[0]), report(1, mine[1]), report(2, None, rows=0, digest=0)]
    assert merged(reports, {}) == Merged([], mine, [])


def test_what_is_committed_is_kept_and_the_own_transaction_for_it_aborted() -> None:
    theirs = {0: (written(0, name="x"), COMMITTED), 1: (written(1, name="y"), ABORTED)}
    mine = [written(0, name="a"), written(1, name="b")]
    reports = [report(0, mine[0]), report(1, mine[1])]
    assert merged(reports, theirs) == Merged([theirs[0][0]], [mine[1]], [mine[0]])


def test_an_aborted_list_leaves_the_own_rows_free() -> None:
    theirs = {0: (written(0, rows=9), ABORTED), 3: (written(3), ABORTED)}
    mine = written(0, rows=2)
    assert merged([report(0, mine, rows=2)], theirs) == Merged([], [mine], [])


@pytest.mark.parametrize(
    ("rows", "digest"), [(2, 5), (1, 6), (0, 0)], ids=["number", "rows", "none"]
)
def test_rows_that_differ_from_a_half_committed_list_fail(rows: int, digest: int) -> None:
    theirs = {0: (written(0), COMMITTED), 1: (written(1), ABORTED)}
    own = written(1, rows, digest) if rows else None
    with pytest.raises(SinkError, match=f"partition 1 had 1 rows and now has {rows}"):
        merged([report(0, None), report(1, own, rows, digest)], theirs)


def test_a_partition_that_neither_list_has_fails() -> None:
    with pytest.raises(SinkError, match="partitions 1 were not written"):
        merged([report(0, written(0)), report(1, None)], {})


def test_decisions_survive_their_encoding() -> None:
    large = Prepared(3, "r", 5, [written(4, 10**9, 2**64 - 1)])
    for decision in (large, Done(0, "r"), Done(0, "r", "q", 7)):
        assert decode(encode(decision)) == decision


class MarkerLog:
    """A marker topic in the making."""

    def __init__(self) -> None:
        self.reading = MarkerReading("mine")
        self._offset = 0

    def write(
        self, producer: int, decision: Decision, *, sink: str = "mine", epoch: int = 0
    ) -> None:
        self._add(
            encode_batch(
                [Record(self._offset, 0, sink.encode(), encode(decision))],
                base_offset=self._offset,
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=0,
                transactional=True,
            )
        )

    def end(self, producer: int, *, commit: bool) -> None:
        kind = MarkerType.COMMIT if commit else MarkerType.ABORT
        marker = TransactionMarker(kind, 0, producer, 0)
        self._add(encode_marker(marker, 0, base_offset=self._offset))

    def _add(self, batch: bytes) -> None:
        self.reading.add(read_header(memoryview(batch)), memoryview(batch))
        self._offset += 1

    @property
    def marker(self) -> SinkMarker:
        return self.reading.result()


def test_only_committed_decisions_count() -> None:
    log = MarkerLog()
    log.write(1, Done(1, "r"), epoch=4)
    assert log.marker == SinkMarker(is_undecided=True)
    log.end(1, commit=True)
    log.write(1, Done(2, "r"))
    log.end(1, commit=False)
    assert log.marker == SinkMarker(Done(1, "r"), (1, 4))


def test_a_decision_is_judged_by_its_own_producers_marker() -> None:
    log = MarkerLog()
    log.write(1, Done(1, "r"))
    log.write(2, Done(9, "r"), sink="other")
    log.end(2, commit=True)
    assert log.marker == SinkMarker(is_undecided=True)
    log.write(3, Done(8, "r"), sink="other")
    log.end(1, commit=True)
    assert log.marker == SinkMarker(Done(1, "r"), (1, 0))


def test_the_last_committed_decision_wins() -> None:
    log = MarkerLog()
    for batch in range(3):
        log.write(1, prepared(batch))
        log.end(1, commit=True)
        log.write(1, Done(batch, "run"))
        log.end(1, commit=True)
    log.write(1, prepared(3), epoch=9)
    assert log.marker == SinkMarker(Done(2, "run"), (1, 0), is_undecided=True)


def test_patterns_match_the_ids_of_one_sink_only() -> None:
    name = worker_id("a.b", "run", "worker", 3)
    assert re.fullmatch(pattern("a.b", None), name)
    assert re.fullmatch(pattern("a.b", "run"), name)
    assert not re.fullmatch(pattern("a.b", "other"), name)
    assert not re.fullmatch(pattern("a", None), name)
    assert not re.fullmatch(pattern("a.b", None), worker_id("axb", "run", "worker", 3))


def test_an_id_is_used_again_in_a_later_batch_only() -> None:
    pool = IdPool("s", "r", "w")
    first = [pool.take(0), pool.take(0)]
    assert len(set(first)) == 2
    assert [pool.take(1), pool.take(1)] == first
    assert pool.take(0) not in first


def test_a_batch_with_a_missing_report_is_not_committed() -> None:
    whole = TaskReport("s", "q", "r", report(0, None))
    assert complete([whole]) == [whole]
    for messages in ([whole, None], [None]):
        with pytest.raises(SinkError, match=r"Trigger\.Continuous"):
            complete(messages)
    rows = RowsWritten(1, "s")
    assert all_written([rows]) == [rows]
    with pytest.raises(SinkError, match=r"Trigger\.Continuous"):
        all_written([rows, None])
