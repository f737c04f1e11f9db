"""Batch writes with sinkId and batchId: whatever dies when, a batch is written once, or not at all.

As in `test_deaths`, a process is forked and kills itself (SIGKILL) at a step. Here nobody starts
the batch again by itself: the caller writes it again, or continues with the next one.
"""

from collections.abc import Callable, Sequence
from itertools import product
from uuid import uuid4

import pytest

from ottla.client import Client
from pyspark_ottla.options import Use
from pyspark_ottla.sink import process
from pyspark_ottla.sink.commit import commit_batch
from pyspark_ottla.sink.errors import RolledBackError, SharedSinkError, SinkError
from pyspark_ottla.sink.marker import Done, Prepared
from pyspark_ottla.sink.marker_log import read_marker
from pyspark_ottla.sink.messages import Task, TaskReport
from pyspark_ottla.sink.once import abort_once, look
from pyspark_ottla.sink.resolving import owner_of_batches
from pyspark_ottla.sink.settings import sink_settings
from pyspark_ottla.sink.steps import CommitStep
from pyspark_ottla.sink.task import write_once
from tests.spark.sink.acting import (
    SCHEMA,
    Run,
    arrow,
    decide,
    end,
    forget_process,
    listed,
    open_ids,
    prepare,
    told,
    visible,
)
from tests.spark.sink.dying import Moment
from tests.spark.sink.test_deaths import (
    ABORT_STEPS,
    ALL,
    COMMIT_STEPS,
    ROWS,
    TASK_STEPS,
    dies_at,
)


class Write(Run):
    """One attempt to write a batch, in a Spark application of its own."""

    def __init__(self, bootstrap: str, topic: str, batch: int, **options: str) -> None:
        given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "batchId": str(batch)}
        sink = options.pop("sinkId", f"sink-{topic}")
        given |= {"sinkId": sink, **options}
        super().__init__(
            sink_settings(SCHEMA, given, Use.BATCH_WRITE), sink, owner_of_batches(None, topic)
        )
        self.number = batch

    def tasks(self, batch: int, rows: Sequence[Sequence[str]]) -> list[TaskReport]:
        resolved = look(self.options, self.sink, batch)
        return [
            write_once(
                self.options,
                Task(self.sink, self.query, self.run, batch, partition),
                resolved,
                arrow(values),
            )
            for partition, values in enumerate(rows)
        ]

    def write(self, rows: Sequence[Sequence[str]] = ROWS) -> None:
        commit_batch(self.options, self.tasks(self.number, rows), self.number)

    def undo(self, reports: Sequence[TaskReport]) -> None:
        abort_once(self.options, reports, self.sink, self.run, self.number)


NewWrite = Callable[..., Write]


@pytest.fixture
def new_write(bootstrap: str, topic: str) -> NewWrite:
    """Writes of one sink, by the number of their batches."""

    def make(batch: int, **options: str) -> Write:
        return Write(bootstrap, topic, batch, **options)

    return make


def test_a_batch_that_is_written_twice_is_there_once(
    client: Client, topic: str, new_write: NewWrite
) -> None:
    for batch in (0, 0, 1, 1, 7, 7):
        new_write(batch).write([[f"{batch}-a"], [], [f"{batch}-b"]])
    assert visible(client, topic) == ["0-a", "0-b", "1-a", "1-b", "7-a", "7-b"]
    assert open_ids(client, f"sink-{topic}") == []


def test_an_earlier_batch_is_refused(client: Client, topic: str, new_write: NewWrite) -> None:
    new_write(5).write()
    with pytest.raises(
        RolledBackError, match=r"batch 4 is to be written .*, but batch 5 was already written"
    ):
        new_write(4).write()
    assert visible(client, topic) == ALL


def test_a_batch_that_comes_again_with_other_rows_is_refused(
    client: Client, topic: str, new_write: NewWrite
) -> None:
    new_write(0).write()
    again = new_write(0)
    with pytest.raises(RolledBackError, match="was written with 6 rows, and now has 1"):
        again.write([["a"]])
    new_write(0, unknownOutcome="committed").write([["a"]])
    assert visible(client, topic) == ALL


def test_two_targets_that_share_a_sink_id_are_found_out(
    client: Client, bootstrap: str, topic: str, new_topic: Callable[..., str]
) -> None:
    other = new_topic()
    Write(bootstrap, topic, 0).write()
    with pytest.raises(SharedSinkError, match=f"batch writes to topic {topic}.*topic {other}"):
        Write(bootstrap, other, 0, sinkId=f"sink-{topic}").write()
    assert visible(client, topic) == ALL


def test_a_stream_and_batch_writes_do_not_share_a_sink_id(
    client: Client, topic: str, new_write: NewWrite
) -> None:
    new_write(0).write()
    stream = Run(new_write(1).options, f"sink-{topic}")
    with pytest.raises(SharedSinkError, match=r"belongs to batch writes to topic .* query query"):
        stream.batch(1, ROWS)
    assert visible(client, topic) == ALL


def test_ids_of_transactions_are_used_again(new_write: NewWrite) -> None:
    names = set()
    applications = process._Process()
    for batch in range(5):
        write = new_write(batch)
        process._process = applications
        reports = write.tasks(batch, ROWS)
        names |= {item.transactional_id for item in listed(reports)}
        write.commit(batch, reports)
    assert len(names) == len(ROWS)


def check_again(client: Client, topic: str, new_write: NewWrite) -> None:
    """Whatever was left of batch 1, writing it again completes it."""
    new_write(1).write()
    assert visible(client, topic) == sorted(["before", *ALL])
    assert open_ids(client, f"sink-{topic}") == []
    decision = read_marker(client, f"sink-{topic}").decision
    assert isinstance(decision, Done)
    assert decision.batch == 1
    new_write(2).write([["after"]])
    assert visible(client, topic) == sorted(["before", "after", *ALL])


@pytest.mark.parametrize("step", TASK_STEPS + COMMIT_STEPS, ids=lambda step: step.name)
def test_the_driver_dies(client: Client, topic: str, new_write: NewWrite, step: Moment) -> None:
    new_write(0).write([["before"]])
    write = new_write(1)
    assert dies_at(step, write.write)
    check_again(client, topic, new_write)


@pytest.mark.parametrize("step", COMMIT_STEPS, ids=lambda step: step.name)
def test_the_committing_process_dies_and_spark_aborts(
    client: Client, topic: str, new_write: NewWrite, step: Moment
) -> None:
    new_write(0).write([["before"]])
    write = new_write(1)
    reports = write.tasks(1, ROWS)
    assert dies_at(step, lambda: write.commit(1, reports))
    write.undo(reports)
    check_again(client, topic, new_write)


@pytest.mark.parametrize("step", ABORT_STEPS, ids=lambda step: step.name)
def test_the_aborting_process_dies(
    client: Client, topic: str, new_write: NewWrite, step: Moment
) -> None:
    new_write(0).write([["before"]])
    write = new_write(1)
    reports = write.tasks(1, ROWS)
    assert dies_at(step, lambda: write.undo(reports))
    check_again(client, topic, new_write)


@pytest.mark.parametrize("step", TASK_STEPS + COMMIT_STEPS, ids=lambda step: step.name)
def test_the_driver_dies_and_the_next_batch_follows(
    client: Client, topic: str, new_write: NewWrite, step: Moment
) -> None:
    """All or nothing also where nobody writes the batch again."""
    assert dies_at(step, new_write(1, audit="true").write)
    new_write(2, audit="true").write([["after"]])
    is_decided = (
        COMMIT_STEPS.index(step) >= COMMIT_STEPS.index(CommitStep.PREPARED)
        if (step in COMMIT_STEPS)
        else False
    )
    assert visible(client, topic) == sorted([*(ALL if is_decided else []), "after"])
    assert open_ids(client, f"sink-{topic}") == []
    counted = [sum(count for *_, count in event.counts) for event in told(client, topic)]
    assert counted == ([len(ALL)] if is_decided else []) + [1]


def test_the_driver_dies_and_its_successor_dies_too(
    client: Client, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    deaths = list(product(COMMIT_STEPS, TASK_STEPS + COMMIT_STEPS))[::5]  # each step is in it
    for batch, steps_of_death in enumerate(deaths):
        rows = [[f"{batch}-a"], [f"{batch}-b"]]
        for step in steps_of_death:
            dies_at(step, lambda: Write(bootstrap, topic, batch).write(rows))  # noqa: B023 (it is called at once)
        Write(bootstrap, topic, batch).write(rows)
    wanted = [f"{batch}-{name}" for batch in range(len(deaths)) for name in "ab"]
    assert visible(client, topic) == sorted(wanted)
    assert open_ids(client, f"sink-{topic}") == []


def test_a_later_batch_does_not_bury_one_that_is_committed_in_part(
    client: Client, topic: str, new_write: NewWrite
) -> None:
    first = new_write(0)
    prepared = prepare(client, first, 0, first.tasks(0, ROWS))
    end(client, prepared.written[:1], commit=True)
    end(client, prepared.written[1:], commit=False)
    with pytest.raises(SinkError, match=r"batch 0 .* in part.* Write batch 0 again first"):
        new_write(1).write([["x"]])
    new_write(0).write()
    new_write(1).write([["x"]])
    assert visible(client, topic) == sorted([*ALL, "x"])


def test_an_abort_with_no_reports_ends_what_tasks_have_left(
    client: Client, topic: str, new_write: NewWrite
) -> None:
    write = new_write(0)
    write.tasks(0, ROWS)
    write.undo([])
    assert visible(client, topic) == []
    assert open_ids(client, f"sink-{topic}") == []


def test_an_abort_after_an_older_batch_was_finished_ends_its_own_transactions(
    client: Client, topic: str, new_write: NewWrite
) -> None:
    first = new_write(0)
    prepare(client, first, 0, first.tasks(0, ROWS))
    write = new_write(1)
    reports = write.tasks(1, [["x"], ["y"]])
    end(client, listed(reports)[:1], commit=False)
    with pytest.raises(SinkError, match="no longer open"):
        write.commit(1, reports)
    write.undo(reports)
    assert visible(client, topic) == ALL
    assert open_ids(client, f"sink-{topic}") == []


def test_an_abort_leaves_what_another_write_has_decided(
    client: Client, topic: str, new_write: NewWrite
) -> None:
    slow = new_write(1)
    reports = slow.tasks(1, [["late"]])
    other = new_write(0)
    theirs = other.tasks(0, ROWS)
    prepare(client, other, 0, theirs)
    slow.undo(reports)
    assert len(open_ids(client, f"sink-{topic}")) == len(ROWS)
    new_write(0).write()
    assert visible(client, topic) == ALL


def test_two_writes_of_a_batch_at_once_write_it_once(
    client: Client, topic: str, new_write: NewWrite
) -> None:
    first, second = new_write(0), new_write(0)
    of_first, of_second = first.tasks(0, ROWS), second.tasks(0, ROWS)
    forget_process()
    second.commit(0, of_second)
    forget_process()
    try:
        first.commit(0, of_first)
    except SinkError:
        first.undo(of_first)
    assert visible(client, topic) == ALL
    assert open_ids(client, f"sink-{topic}") == []


def test_a_write_that_lost_its_fence_decides_nothing(
    client: Client, topic: str, new_write: NewWrite
) -> None:
    sink = f"sink-{topic}"
    write = new_write(0)
    reports = write.tasks(0, ROWS)
    decide(client, sink, Done(3, uuid4().hex, write.query, 1))
    with pytest.raises(RolledBackError):
        write.commit(0, reports)
    write.undo(reports)
    assert visible(client, topic) == []
    assert isinstance(read_marker(client, sink).decision, Done)


def test_an_older_prepared_batch_is_told_to_be_done_by_the_next(
    client: Client, topic: str, new_write: NewWrite
) -> None:
    first = new_write(0)
    prepared = prepare(client, first, 0, first.tasks(0, ROWS))
    assert isinstance(prepared, Prepared)
    new_write(1).write([["x"]])
    assert visible(client, topic) == sorted([*ALL, "x"])
