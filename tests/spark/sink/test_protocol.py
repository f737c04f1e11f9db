"""The table of the sink's recovery: each row by real transactions on a real broker."""

from collections.abc import Iterator

import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs
import pytest

from ottla.client import Admin, Client
from ottla.client.batch_sender import BatchSender
from ottla.client.transactional import Transactions
from ottla.records import Record
from ottla.records.kernel import KERNEL
from pyspark_ottla.sink import process, steps
from pyspark_ottla.sink.errors import (
    FencedError,
    RolledBackError,
    SharedSinkError,
    SinkError,
    UnknownOutcomeError,
)
from pyspark_ottla.sink.fence import Fence
from pyspark_ottla.sink.marker import Done, Prepared
from pyspark_ottla.sink.marker_log import WHERE, read_marker
from pyspark_ottla.sink.messages import Task
from pyspark_ottla.sink.names import fence_id
from pyspark_ottla.sink.steps import CommitStep
from pyspark_ottla.sink.task import write_in_stream
from tests.spark.sink.acting import (
    Run,
    arrow,
    decide,
    end,
    forget_process,
    listed,
    open_ids,
    prepare,
    settings,
    visible,
)

ROWS = [["a", "b"], ["c"]]
ALL = ["a", "b", "c"]


@pytest.fixture
def sink(topic: str) -> str:
    return f"sink-{topic}"


@pytest.fixture
def run(bootstrap: str, topic: str, sink: str) -> Run:
    return Run(settings(bootstrap, topic), sink)


def restarted(run: Run) -> Run:
    return Run(run.options, run.sink, run.query)


def test_a_batch_is_visible_after_its_commit_and_not_before(
    client: Client, topic: str, run: Run
) -> None:
    reports = run.tasks(0, ROWS)
    assert len(open_ids(client, run.sink)) == 2
    run.commit(0, reports)
    assert visible(client, topic) == ALL
    assert read_marker(client, run.sink).decision == Done(0, run.run, run.query, len(ALL))


def test_ids_are_used_again_in_later_batches(client: Client, topic: str, run: Run) -> None:
    ids = []
    for batch in range(3):
        reports = run.tasks(batch, ROWS)
        ids.append([item.transactional_id for item in listed(reports)])
        run.commit(batch, reports)
    assert ids[0] == ids[1] == ids[2]
    assert len(set(ids[0])) == 2
    assert visible(client, topic) == sorted(ALL * 3)


def test_empty_tasks_open_nothing_and_an_empty_batch_decides_nothing(
    client: Client, topic: str, run: Run
) -> None:
    run.batch(0, [[], []])
    assert read_marker(client, run.sink).decision is None
    run.batch(1, [[], ["a"]])
    assert visible(client, topic) == ["a"]


def test_an_older_batch_in_the_marker_is_no_obstacle(client: Client, topic: str, run: Run) -> None:
    run.batch(0, ROWS)
    restarted(run).batch(1, [["d"]])
    assert visible(client, topic) == [*ALL, "d"]


def test_a_done_batch_is_not_written_again(client: Client, topic: str, run: Run) -> None:
    run.batch(0, ROWS)
    again = restarted(run)
    reports = again.tasks(0, ROWS)
    assert listed(reports) == []
    again.commit(0, reports)
    assert visible(client, topic) == ALL


def test_a_done_batch_that_now_has_other_rows_fails_unless_it_is_to_stay_as_it_is(
    client: Client, topic: str, run: Run
) -> None:
    """As with a checkpoint that was restored: what came since is in the batch, and not written."""
    run.batch(0, ROWS)
    again = restarted(run)
    reports = again.tasks(0, [["a", "b"], ["c", "d"]])
    with pytest.raises(RolledBackError, match="was written with 3 rows, and now has 4"):
        again.commit(0, reports)
    again.abort(0, reports)
    told = Run(
        settings(run.options.client.bootstrap_servers, topic, unknownOutcome="committed"), run.sink
    )
    told.batch(0, [["a", "b"], ["c", "d"]])
    assert visible(client, topic) == ALL


def test_a_prepared_batch_that_now_has_other_rows_fails(
    client: Client, topic: str, run: Run
) -> None:
    prepare(client, run, 0, run.tasks(0, ROWS))
    again = restarted(run)
    reports = again.tasks(0, [["a"]])
    with pytest.raises(RolledBackError, match="was written with 3 rows, and now has 1"):
        again.commit(0, reports)
    assert visible(client, topic) == ALL


def test_a_sink_belongs_to_one_query(client: Client, topic: str, run: Run) -> None:
    run.batch(0, ROWS)
    other = Run(run.options, run.sink, "another")
    with pytest.raises(
        SharedSinkError, match=r"belongs to the query query.*batch 0;.*query another"
    ):
        other.tasks(0, ROWS)
    forget_process()
    run.batch(1, [["d"]])
    assert visible(client, topic) == [*ALL, "d"]


def test_a_query_that_finds_its_sink_taken_leaves_it_to_its_owner(
    client: Client, topic: str, run: Run
) -> None:
    other = Run(run.options, run.sink, "another")
    reports = other.tasks(0, ROWS)
    forget_process()
    run.batch(0, [["d"]])
    forget_process()
    with pytest.raises(SharedSinkError):
        other.commit(0, reports)
    other.abort(0, reports)
    forget_process()
    run.batch(1, [["e"]])
    assert visible(client, topic) == ["d", "e"]
    assert open_ids(client, run.sink) == []


def test_an_undecided_record_counts_as_none_and_the_fence_aborts_it(
    client: Client, topic: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = run.tasks(0, ROWS)

    def die(step: CommitStep) -> None:
        if step is CommitStep.PREPARED_WRITTEN:
            raise KeyboardInterrupt

    monkeypatch.setattr(steps, "reached", die)
    with pytest.raises(KeyboardInterrupt):
        run.commit(0, reports)
    monkeypatch.undo()
    marker = read_marker(client, run.sink)
    assert marker.decision is None
    assert marker.is_undecided
    again = restarted(run)
    again.batch(0, ROWS)
    assert visible(client, topic) == ALL
    assert read_marker(client, run.sink).decision == Done(0, again.run, again.query, len(ALL))


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_a_prepared_batch_is_finished_and_not_written_again(
    client: Client, topic: str, run: Run, ended: int
) -> None:
    prepared = prepare(client, run, 0, run.tasks(0, ROWS))
    end(client, prepared.written[:ended], commit=True)
    again = restarted(run)
    reports = again.tasks(0, ROWS)
    assert listed(reports) == []
    again.commit(0, reports)
    assert visible(client, topic) == ALL
    assert read_marker(client, run.sink).decision == Done(0, again.run, again.query, len(ALL))


def test_a_prepared_batch_whose_transactions_are_all_aborted_is_written_again(
    client: Client, topic: str, run: Run
) -> None:
    prepared = prepare(client, run, 0, run.tasks(0, ROWS))
    end(client, prepared.written, commit=False)
    again = restarted(run)
    # Nothing is visible, so the rows may be divided otherwise.
    again.batch(0, [["a"], ["b"], ["c"]])
    assert visible(client, topic) == ALL


def test_a_half_committed_batch_is_repaired(client: Client, topic: str, run: Run) -> None:
    prepared = prepare(client, run, 0, run.tasks(0, ROWS))
    end(client, prepared.written[:1], commit=True)
    end(client, prepared.written[1:], commit=False)
    again = restarted(run)
    reports = again.tasks(0, ROWS)
    assert [item.partition for item in listed(reports)] == [1]
    again.commit(0, reports)
    assert visible(client, topic) == ALL
    assert read_marker(client, run.sink).decision == Done(0, again.run, again.query, len(ALL))


@pytest.mark.parametrize("rows", [[["a", "b"], ["x"]], [["a"], ["b", "c"]], [["a", "b"], []]])
def test_a_repair_with_other_rows_fails_and_names_the_partitions(
    client: Client, run: Run, rows: list[list[str]]
) -> None:
    prepared = prepare(client, run, 0, run.tasks(0, ROWS))
    end(client, prepared.written[:1], commit=True)
    end(client, prepared.written[1:], commit=False)
    again = restarted(run)
    reports = again.tasks(0, rows)
    with pytest.raises(SinkError, match=r"partition 1 had 1 rows and now has \d"):
        again.commit(0, reports)
    again.abort(0, reports)


def test_a_repair_can_die_and_be_repaired(client: Client, topic: str, run: Run) -> None:
    prepared = prepare(client, run, 0, run.tasks(0, [["a"], ["b"], ["c"]]))
    end(client, prepared.written[:1], commit=True)
    end(client, prepared.written[1:], commit=False)
    second = restarted(run)
    reports = second.tasks(0, [["a"], ["b"], ["c"]])
    repaired = Prepared(
        0, second.run, prepared.end_txn_version, [prepared.written[0], *listed(reports)]
    )
    decide(client, run.sink, repaired)
    end(client, repaired.written[1:2], commit=True)
    end(client, repaired.written[2:], commit=False)
    restarted(run).batch(0, [["a"], ["b"], ["c"]])
    assert visible(client, topic) == ALL


def test_what_retention_took_away_is_unknown_and_the_operator_decides(
    client: Client, admin: Admin, topic: str, run: Run, bootstrap: str
) -> None:
    prepared = prepare(client, run, 0, run.tasks(0, ROWS))
    end(client, prepared.written, commit=True)
    assert visible(client, topic) == ALL
    admin.delete_records(dict.fromkeys(admin.partitions(topic), -1))
    with pytest.raises(UnknownOutcomeError, match=f"batch 0 .*{topic}-0 offsets 0 to 1"):
        restarted(run).tasks(0, ROWS)
    told = Run(settings(bootstrap, topic, unknownOutcome="committed"), run.sink)
    told.batch(0, ROWS)
    assert visible(client, topic) == []
    assert read_marker(client, run.sink).decision == Done(0, told.run, told.query, len(ALL))


def test_a_deleted_topic_is_unknown(
    client: Client, admin: Admin, topic: str, run: Run, bootstrap: str
) -> None:
    prepared = prepare(client, run, 0, run.tasks(0, ROWS))
    end(client, prepared.written, commit=False)
    admin.delete_topic(topic)
    with pytest.raises(UnknownOutcomeError):
        restarted(run).tasks(0, ROWS)
    admin.create_topic(topic, partitions=1)
    told = Run(settings(bootstrap, topic, unknownOutcome="aborted"), run.sink)
    told.batch(0, ROWS)
    assert visible(client, topic) == ALL


def test_a_batch_won_by_another_list_is_finished_and_the_own_list_aborted(
    client: Client, topic: str, run: Run
) -> None:
    old = run
    new = restarted(run)
    own = new.tasks(0, ROWS)
    # The old run, thought dead, decides before the new one takes the fence.
    prepared = prepare(client, old, 0, old.tasks(0, ROWS))
    new.commit(0, own)
    assert visible(client, topic) == ALL
    assert prepared.run == old.run
    assert open_ids(client, run.sink) == []


def test_a_list_that_another_run_half_committed_is_completed_from_the_own_list(
    client: Client, topic: str, run: Run
) -> None:
    new = restarted(run)
    own = new.tasks(0, ROWS)
    prepared = prepare(client, run, 0, run.tasks(0, ROWS))
    end(client, prepared.written[:1], commit=False)
    end(client, prepared.written[1:], commit=True)
    new.commit(0, own)
    assert visible(client, topic) == ALL
    assert open_ids(client, run.sink) == []


def test_a_later_batch_in_the_marker_fails(client: Client, topic: str, run: Run) -> None:
    run.batch(7, ROWS)
    with pytest.raises(
        RolledBackError, match=r"batch 5 is to be written .*, but batch 7 was already written"
    ):
        restarted(run).tasks(5, ROWS)
    assert visible(client, topic) == ALL


def test_a_fenced_run_may_not_decide(client: Client, topic: str, run: Run) -> None:
    run.batch(0, ROWS)
    old_process = _process_of(run)
    new = restarted(run)
    new.batch(1, [["d"]])
    _go_back_to(old_process)
    reports = run.tasks(1, [["d"]])
    with pytest.raises(FencedError, match="another run of the sink"):
        run.commit(1, reports)
    run.abort(1, reports)
    assert visible(client, topic) == [*ALL, "d"]
    forget_process()
    # The newer run continues: the abort of the older one has not taken the fence from it.
    new.batch(2, [["e"]])
    assert visible(client, topic) == [*ALL, "d", "e"]


def test_another_process_of_the_same_run_continues(client: Client, topic: str, run: Run) -> None:
    for batch in range(3):
        forget_process()
        run.batch(batch, [[str(batch)]])
    assert visible(client, topic) == ["0", "1", "2"]


def test_processes_of_one_run_may_take_turns(client: Client, topic: str, run: Run) -> None:
    run.batch(0, ROWS)
    first = process._process
    forget_process()
    run.batch(1, ROWS)
    second, process._process = process._process, first
    run.batch(2, ROWS)
    process._process = second
    run.batch(3, ROWS)
    assert visible(client, topic) == sorted(ALL * 4)
    assert open_ids(client, run.sink) == []


@pytest.mark.parametrize("rows_first", [False, True])
def test_processes_may_take_turns_while_no_rows_come(
    client: Client, topic: str, run: Run, rows_first: bool
) -> None:
    """As windows that are not over yet: each process has had the fence, and none has decided."""
    if rows_first:
        run.batch(0, ROWS)
    processes = [process._process]
    for _ in range(2):
        forget_process()
        run.batch(len(processes), [[]])
        processes.append(process._process)
    for batch, rows in enumerate(([], ["d"], [], [], ["e"], ["f"]), len(processes)):
        process._process = processes[batch % len(processes)]
        run.batch(batch, [rows])
    assert visible(client, topic) == [*(ALL if rows_first else []), "d", "e", "f"]
    assert open_ids(client, run.sink) == []


def test_an_abort_undoes_what_is_not_decided(client: Client, topic: str, run: Run) -> None:
    reports = run.tasks(0, ROWS)
    run.task(0, 1, ["c"])  # An attempt that lost.
    run.abort(0, reports)
    assert visible(client, topic) == []
    assert open_ids(client, run.sink) == []


def test_an_abort_leaves_a_decided_batch_alone(client: Client, topic: str, run: Run) -> None:
    reports = run.tasks(0, ROWS)
    prepare(client, run, 0, reports)
    run.abort(0, reports)
    assert len(open_ids(client, run.sink)) == 2
    restarted(run).batch(0, ROWS)
    assert visible(client, topic) == ALL


def test_a_losing_attempt_leaves_nothing(client: Client, topic: str, run: Run) -> None:
    run.task(0, 0, ["a", "b"])
    reports = run.tasks(0, ROWS)
    run.commit(0, reports)
    assert visible(client, topic) == ALL
    assert open_ids(client, run.sink) == []


def test_the_first_commit_of_a_run_sweeps_earlier_runs(
    client: Client, topic: str, run: Run
) -> None:
    run.tasks(0, ROWS)
    other = Run(run.options, f"{run.sink}.b")
    other.tasks(0, [["x"]])
    restarted(run).batch(0, ROWS)
    assert open_ids(client, run.sink) == []
    assert len(open_ids(client, other.sink)) == 1
    other.batch(0, [["x"]])
    assert visible(client, topic) == [*ALL, "x"]


def test_a_transaction_that_timed_out_fails_the_commit_before_anything_is_decided(
    client: Client, topic: str, run: Run
) -> None:
    reports = run.tasks(0, ROWS)
    end(client, listed(reports)[:1], commit=False)
    with pytest.raises(SinkError, match=r"task 0 of batch 0 .* no longer open"):
        run.commit(0, reports)
    assert read_marker(client, run.sink).decision is None
    run.abort(0, reports)
    restarted(run).batch(0, ROWS)
    assert visible(client, topic) == ALL


def test_a_transaction_that_times_out_while_rows_are_written_says_what_to_change(
    client: Client, bootstrap: str, topic: str, sink: str
) -> None:
    options = settings(
        bootstrap, topic, kafka_batch_size="1", kafka_transaction_timeout_ms="123456"
    )
    run = Run(options, sink)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from arrow(["a", "b"])
        # What a broker does at the timeout: it raises the epoch, and aborts.
        for name in open_ids(client, sink):
            Transactions(client).begin(name, 60_000)
        yield from arrow(["c"])

    with pytest.raises(SinkError) as caught:
        write_in_stream(options, Task(sink, run.query, run.run, 4, 2), batches())
    assert "has ended the transaction of task 2 of batch 4" in str(caught.value)
    assert "kafka.transaction.timeout.ms (123456): make batches smaller" in str(caught.value)
    assert "maxOffsetsPerTrigger" in str(caught.value)
    assert visible(client, topic) == []


def test_another_sinks_open_marker_does_not_hide_ours(client: Client, topic: str, run: Run) -> None:
    transactions = Transactions(client)
    key = transactions.begin(fence_id(f"{run.sink}-other"), 60_000)
    sender = BatchSender(client, transaction=(transactions, key))
    record = Record(0, 0, b"other", b"{}")
    sender.send(WHERE, KERNEL.encode_records([record], 0, 0), 1, 0)
    sender.flush()
    run.batch(0, ROWS)
    again = restarted(run)
    assert listed(again.tasks(0, ROWS)) == []
    transactions.end([key], commit=False, end_txn_version=transactions.end_txn_version)


def _process_of(run: Run) -> object:
    return process._process


def _go_back_to(state: object) -> None:
    assert isinstance(state, process._Process)
    process._process = state


def test_the_fence_works_with_transactions_of_version_1(client: Client, run: Run) -> None:
    transactions = Transactions(client, version=1)
    fence = Fence.take(client, transactions, run.sink)
    for batch in range(3):
        fence.decide(Done(batch, run.run))
    assert read_marker(client, run.sink).decision == Done(2, run.run)
    # Another process of the run continues, and the first one is fenced.
    Fence.take_once(client, transactions, run.sink, run.run).decide(Done(3, run.run))
    with pytest.raises(FencedError):
        fence.decide(Done(4, run.run))
