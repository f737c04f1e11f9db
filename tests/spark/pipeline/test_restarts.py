"""Failures of Spark's own machinery: what a pipeline outlives, and what ends it."""

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.client import Client
from pyspark_ottla.pipeline.checking import load
from pyspark_ottla.pipeline.failures import cause
from pyspark_ottla.pipeline.progress import QueryProgress
from pyspark_ottla.pipeline.restarts import MOST_IN_A_ROW, Restarts
from pyspark_ottla.pipeline.running import PipelineRun
from pyspark_ottla.pipeline.session import session_of_query
from testkit import proc

from .running import committed, event, plain_display, send

FILE = """\
pipeline: p
checkpoint: state
sources: {{c: {{topic: {topic}, format: json, schema: id INT}}}}
sinks: {{out: {{from: c, topic: {topic}.out, value: CAST(id AS STRING)}}}}
"""
SOURCE_PROCESS = b"python_streaming_source_runner"


def source_processes() -> list[int]:
    """The processes of this test's Spark that ask for the offsets of streams."""
    found = []
    for pid in proc.tree(os.getpid(), proc.all_stats()):
        try:
            if SOURCE_PROCESS in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


def test_a_query_whose_process_is_killed_is_started_again_and_loses_nothing(
    spark: SparkSession, client: Client, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    send(client, topic, (event(number, "x", "10:00:00") for number in range(3)))
    file = tmp_path / "p.yaml"
    file.write_text(FILE.format(topic=topic))
    display, said = plain_display()
    run = PipelineRun(
        spark, replace(load(str(file)), bootstrap=bootstrap), display, threading.Event()
    )

    def goes_on(progress: list[QueryProgress]) -> bool:
        if progress[0].batches and not killed:
            for pid in source_processes():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            send(client, topic, (event(number, "x", "10:00:00") for number in range(3, 5)))
        return progress[0].rows < 5

    killed: list[int] = []
    done = run.run(once=False, watch=goes_on)
    assert done[0].rows == 5
    assert sorted(map(int, committed(client, f"{topic}.out"))) == list(range(5))
    assert "sink out failed (" in said()
    assert f"restarting it from its checkpoint (attempt 1 of {MOST_IN_A_ROW})" in said()


def test_the_queries_of_a_pipeline_share_no_registration_that_spark_changes(
    spark: SparkSession,
) -> None:
    environments = []
    for _ in range(2):
        sources = session_of_query(spark)._jsparkSession.sessionState().dataSourceManager()
        environments.append(sources.lookupDataSource("ottla").dataSourceCls().envVars())
    environments[0].put("CHANGED", "while another query sends its tasks")
    assert "CHANGED" in dict(environments[0])
    assert "CHANGED" not in dict(environments[1])


def test_the_session_of_a_query_has_the_settings_of_the_application(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        assert session_of_query(spark).conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")


MACHINERY = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {}"


@pytest.mark.parametrize(
    "text",
    [
        MACHINERY.format("Task not serializable SQLSTATE: XXKST"),
        MACHINERY.format("Python worker exited unexpectedly (crashed)"),
        MACHINERY.format(" SQLSTATE: XXKST\n\njava.io.EOFException"),
        MACHINERY.format("Stream closed SQLSTATE: XXKST\n\njava.io.IOException: Stream closed"),
    ],
)
def test_failures_of_spark_itself_are_outlived(text: str) -> None:
    assert Restarts().allow(text, 0)


@pytest.mark.parametrize(
    "text",
    [
        MACHINERY.format("record 1 in partition 0 of topic t: id is not INT"),
        "Python worker exited unexpectedly (crashed)\nTraceback (most recent call last):\nX: y",
        MACHINERY.format("Job aborted due to stage failure: java.lang.OutOfMemoryError"),
    ],
)
def test_what_would_come_again_is_not(text: str) -> None:
    assert not Restarts().allow(text, 0)


def test_a_query_that_gets_nowhere_is_given_up() -> None:
    text = MACHINERY.format("Task not serializable")
    restarts = Restarts()
    assert [restarts.allow(text, 0) for _ in range(MOST_IN_A_ROW + 1)] == [True] * MOST_IN_A_ROW + [
        False
    ]


def test_a_finished_batch_begins_the_count_again() -> None:
    text = MACHINERY.format("Task not serializable")
    restarts = Restarts()
    assert all(restarts.allow(text, batches) for batches in range(3 * MOST_IN_A_ROW))


def test_a_failure_without_a_message_is_told_by_its_class() -> None:
    text = MACHINERY.format(" SQLSTATE: XXKST\n\njava.io.EOFException")
    assert cause(text) == "Spark says only java.io.EOFException"
    assert cause(MACHINERY.format("Task not serializable SQLSTATE: X")) == "Task not serializable"
