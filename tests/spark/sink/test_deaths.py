"""Each step of the protocol, killed on purpose: whatever dies when, every row is there once.

A process is forked and kills itself (SIGKILL) when it reaches the step; the test goes on as Spark
does: with an abort where only the committing process died, and with a new run in any case.
"""

import os
import signal
from collections.abc import Callable
from itertools import product

import pytest

from ottla.client import Client
from pyspark_ottla.sink.marker import Done
from pyspark_ottla.sink.marker_log import read_marker
from pyspark_ottla.sink.steps import CommitStep
from tests.spark.sink.acting import Run, forget_process, open_ids, settings, visible
from tests.spark.sink.dying import Between, Moment, die_at

ROWS = [["a", "b"], ["c"], ["d", "e", "f"]]
ALL = ["a", "b", "c", "d", "e", "f"]
TASK_STEPS: list[Moment] = [
    CommitStep.TASK_BEGUN,
    CommitStep.TASK_HALF_WRITTEN,
    CommitStep.TASK_WRITTEN,
]
COMMIT_STEPS: list[Moment] = [
    CommitStep.FENCED,
    CommitStep.CHECKED,
    CommitStep.PREPARED_WRITTEN,
    CommitStep.PREPARED,
    Between.HALF_ENDED,
    CommitStep.ENDED,
    CommitStep.DONE_WRITTEN,
    CommitStep.DONE,
    CommitStep.SWEPT,
]
ABORT_STEPS: list[Moment] = [CommitStep.ABORT_FENCED, CommitStep.ABORTED]
SURVIVED = 3


@pytest.fixture
def run(bootstrap: str, topic: str) -> Run:
    return Run(settings(bootstrap, topic), f"sink-{topic}")


def dies_at(where: Moment, work: Callable[[], object]) -> bool:
    """Do some work in a process that dies at a step; False if it never got there."""

    child = os.fork()
    if not child:
        try:
            die_at(where, lambda: os.kill(os.getpid(), signal.SIGKILL))
            work()
        finally:
            os._exit(SURVIVED)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == SURVIVED
    return False


def check_the_next_run(client: Client, run: Run) -> None:
    """A new run writes the batch that Spark does not know of, and continues."""
    again = Run(run.options, run.sink)
    again.batch(1, ROWS)
    assert visible(client, run.options.topic or "") == sorted(["before", *ALL])
    assert open_ids(client, run.sink) == []
    decision = read_marker(client, run.sink).decision
    assert isinstance(decision, Done)
    assert decision.batch == 1
    again.batch(2, [["after"]])
    assert visible(client, run.options.topic or "") == sorted(["before", "after", *ALL])


@pytest.mark.parametrize("step", TASK_STEPS + COMMIT_STEPS, ids=lambda step: step.name)
def test_the_driver_dies(client: Client, run: Run, step: Moment) -> None:
    run.batch(0, [["before"]])
    assert dies_at(step, lambda: run.batch(1, ROWS))
    check_the_next_run(client, run)


@pytest.mark.parametrize("step", TASK_STEPS, ids=lambda step: step.name)
def test_a_worker_dies_and_its_task_is_tried_again(client: Client, run: Run, step: Moment) -> None:
    run.batch(0, [["before"]])
    reports = [run.task(1, 0, ROWS[0]), run.task(1, 1, ROWS[1])]
    assert dies_at(step, lambda: run.task(1, 2, ROWS[2]))
    run.commit(1, [*reports, run.task(1, 2, ROWS[2])])
    assert visible(client, run.options.topic or "") == sorted(["before", *ALL])
    assert open_ids(client, run.sink) == []


@pytest.mark.parametrize("step", COMMIT_STEPS, ids=lambda step: step.name)
def test_the_committing_process_dies_and_spark_aborts(
    client: Client, run: Run, step: Moment
) -> None:
    run.batch(0, [["before"]])
    forget_process()
    reports = run.tasks(1, ROWS)
    assert dies_at(step, lambda: run.commit(1, reports))
    run.abort(1, reports)
    check_the_next_run(client, run)


@pytest.mark.parametrize("step", ABORT_STEPS, ids=lambda step: step.name)
def test_the_aborting_process_dies(client: Client, run: Run, step: Moment) -> None:
    run.batch(0, [["before"]])
    reports = run.tasks(1, ROWS)
    assert dies_at(step, lambda: run.abort(1, reports))
    check_the_next_run(client, run)


def test_the_driver_dies_and_its_successor_dies_too(
    client: Client, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    reached = 0
    topic = new_topic(partitions=2)
    deaths = list(product(COMMIT_STEPS, TASK_STEPS + COMMIT_STEPS))
    sink = Run(settings(bootstrap, topic), f"sink-{topic}")
    for batch, (first, second) in enumerate(deaths):
        run = Run(sink.options, sink.sink)
        assert dies_at(first, lambda: run.batch(batch, [[f"{batch}-a"], [f"{batch}-b"]]))  # noqa: B023 (it is called at once)
        successor = Run(sink.options, sink.sink)
        # Where nothing is left to do, the successor does not get to each step.
        reached += dies_at(
            second,
            lambda: successor.batch(batch, [[f"{batch}-a"], [f"{batch}-b"]]),  # noqa: B023 (as above)
        )
        Run(sink.options, sink.sink).batch(batch, [[f"{batch}-a"], [f"{batch}-b"]])
    wanted = [f"{batch}-{name}" for batch in range(len(deaths)) for name in "ab"]
    assert visible(client, topic) == sorted(wanted)
    assert open_ids(client, sink.sink) == []
    assert reached > len(deaths) // 2
