"""What a process of Spark remembers of runs, and that no two transactions get the same id."""

from pyspark_ottla.sink import process
from pyspark_ottla.sink.process import MOST_RUNS, forget_fence, state_of
from tests.spark.sink.acting import forget_process

WHERE = "localhost:9092"


def test_a_run_is_remembered_while_others_come_and_go() -> None:
    forget_process()
    state = state_of(WHERE, "sink", "run")
    for number in range(MOST_RUNS * 2):
        state_of(WHERE, "sink", f"other-{number}")
        assert state_of(WHERE, "sink", "run") is state


def test_no_more_runs_are_remembered_than_can_be_in_use() -> None:
    forget_process()
    for number in range(MOST_RUNS * 2):
        state_of(WHERE, "sink", f"run-{number}")
    assert len(process._process.runs) == MOST_RUNS


def test_a_run_that_was_forgotten_gets_ids_that_it_has_not_had() -> None:
    forget_process()
    before = state_of(WHERE, "sink", "run").ids.take(0)
    forget_process()
    assert state_of(WHERE, "sink", "run").ids.take(0) != before


def test_forgetting_a_fence_forgets_nothing_else() -> None:
    forget_process()
    first = state_of(WHERE, "sink", "run").ids.take(0)
    forget_fence(WHERE, "sink", "run")
    assert state_of(WHERE, "sink", "run").ids.take(0) != first
