"""A pipeline's life: start its queries, watch them, stop them.

Rules kept here:
1. All queries are planned before the first one starts, so that a mistake starts nothing.
2. One query's failure stops the others and ends the run: it is told in one line with its sink.
3. An interrupt or SIGTERM stops all queries. What a batch had not finished is done again by the
   next run, from the checkpoint; nothing is lost or doubled by stopping, however roughly.
"""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

from pyspark_ottla.pipeline.display import Display
from pyspark_ottla.pipeline.failures import cause
from pyspark_ottla.pipeline.model import Pipeline
from pyspark_ottla.pipeline.places import is_local, local_path, resolve
from pyspark_ottla.pipeline.problems import PipelineError
from pyspark_ottla.pipeline.progress import QueryProgress
from pyspark_ottla.pipeline.session import settings_for, start_session, started_elsewhere
from pyspark_ottla.pipeline.sinks import plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS = 0.5


def run_pipeline(
    pipeline: Pipeline,
    *,
    once: bool,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    display: Display | None = None,
) -> list[QueryProgress]:
    """Run until it is stopped or (once) has read all that is there; Spark is stopped at the end.

    PipelineError says what failed.
    """
    shown = display or Display()
    log = log_file(pipeline)
    if log is not None and not started_elsewhere():
        shown.say(f"Spark's log is {log}")
    with stopping() as stop:
        chosen = settings_for(master, pipeline.spark, settings or {})
        spark = start_session(f"ottla pipeline {pipeline.name}", chosen, log)
        try:
            return Run(spark, pipeline, shown, stop).run(once=once)
        finally:
            spark.stop()


def log_file(pipeline: Pipeline) -> Path | None:
    """Where Spark's own output goes: beside the checkpoint, if that is on this machine."""
    if pipeline.checkpoint is None:
        return None
    folder = resolve(pipeline.checkpoint, pipeline.path)
    return local_path(folder) / "spark.log" if is_local(folder) else None


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that an interrupt and SIGTERM set, as long as the block lasts."""
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, on_signal)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Run:
    """One run of a pipeline in a session."""

    def __init__(
        self, spark: "SparkSession", pipeline: Pipeline, display: Display, stop: threading.Event
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._display = display
        self._stop = stop
        self._queries: list[tuple[StreamingQuery, QueryProgress]] = []

    def run(
        self, *, once: bool, watch: Callable[[list[QueryProgress]], bool] | None = None
    ) -> list[QueryProgress]:
        """Start, watch, stop; returns what each query did.

        `watch` is called now and then while the queries run; they are stopped when it says False.
        """
        planned = list(plan(self._spark, self._pipeline, once=once))
        try:
            for item in planned:
                if self._stop.is_set():
                    break
                progress = QueryProgress(item.name, item.target, monotonic())
                self._queries.append((item.start(), progress))
            while self._look() and not self._stop.wait(POLL_SECONDS):
                self._display.show(self.progress, monotonic())
                if watch is not None and not watch(self.progress):
                    break
        finally:
            self._display.stop()
            self._stop_queries()
        self._look()
        now = monotonic()
        for progress in self.progress:
            progress.ended = progress.ended or now
        self._display.summary(self.progress, now)
        return self.progress

    def _stop_queries(self) -> None:
        from pyspark.errors import PySparkException

        for query, progress in self._queries:
            try:
                query.stop()
            except PySparkException:
                self._display.say(f"sink {progress.name} did not stop in time; Spark will end it")

    @property
    def progress(self) -> list[QueryProgress]:
        """Of each query."""
        return [progress for _, progress in self._queries]

    def _look(self) -> bool:
        """Take notice of what happened; False when there is nothing more to wait for."""
        now = monotonic()
        active = False
        for query, progress in self._queries:
            running = query.isActive
            progress.see([json.loads(item.json) for item in query.recentProgress], now)
            if running:
                active = True
                continue
            if progress.ended is None:
                progress.ended = now
            problem = query.exception()
            if problem is not None and not self._stop.is_set():
                raise PipelineError(f"sink {progress.name} failed: {cause(str(problem))}")
        return active
