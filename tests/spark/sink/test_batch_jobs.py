"""All or nothing: the transactions of a batch job, ended by its driver."""

import pytest

from ottla.client import Client
from pyspark_ottla.sink.batch_commit import abort_write, commit_write
from pyspark_ottla.sink.errors import SinkError
from pyspark_ottla.sink.messages import Task, TaskReport
from pyspark_ottla.sink.task import write_in_batch
from tests.spark.sink.acting import Run, arrow, end, listed, settings, visible

ROWS = [["a", "b"], ["c"], []]


@pytest.fixture
def job(bootstrap: str, topic: str) -> Run:
    return Run(settings(bootstrap, topic), f"job-{topic}")


def tasks(job: Run) -> list[TaskReport]:
    return [
        write_in_batch(job.options, Task(job.sink, job.run, job.run, 0, partition), arrow(values))
        for partition, values in enumerate(ROWS)
    ]


def test_all_rows_are_visible_after_the_commit(client: Client, topic: str, job: Run) -> None:
    tasks(job)  # Attempts that lost.
    commit_write(job.options, tasks(job))
    assert visible(client, topic) == ["a", "b", "c"]


def abort(job: Run, reports: list[TaskReport]) -> None:
    """What the driver does after a failure, with the reports that it got."""
    all_reported = len(reports) == len(ROWS)
    abort_write(job.options, reports, sink=job.sink, run=job.run, all_reported=all_reported)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_none_is_visible_after_an_abort(client: Client, topic: str, job: Run, count: int) -> None:
    reports = tasks(job)
    abort(job, reports[:count])
    assert visible(client, topic) == []


def test_a_transaction_that_has_ended_fails_the_commit(
    client: Client, topic: str, job: Run
) -> None:
    reports = tasks(job)
    end(client, listed(reports)[1:], commit=False)
    with pytest.raises(SinkError, match="task 1 of the write is no longer open"):
        commit_write(job.options, reports)
    abort(job, reports)
    assert visible(client, topic) == []


def test_an_abort_in_the_middle_of_a_commit_finishes_it(
    client: Client, topic: str, job: Run
) -> None:
    reports = tasks(job)
    end(client, listed(reports)[:1], commit=True)
    abort(job, reports)
    assert visible(client, topic) == ["a", "b", "c"]


def test_jobs_that_run_at_once_in_the_same_process_leave_each_other_alone(
    client: Client, topic: str, job: Run
) -> None:
    """Tasks of both come by turns, and all batch jobs have one name in their transactions."""
    by_job: dict[str, list[TaskReport]] = {"first": [], "second": []}
    for partition in range(3):
        for run, reports in by_job.items():
            this = Task(job.sink, run, f"{run}-{job.run}", 0, partition)
            reports.append(write_in_batch(job.options, this, arrow([f"{run} {partition}"])))
    for reports in by_job.values():
        commit_write(job.options, reports)
    assert visible(client, topic) == sorted(f"{run} {n}" for run in by_job for n in range(3))
