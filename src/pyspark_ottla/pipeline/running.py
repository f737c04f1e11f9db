"""A pipeline's life: start its queries, watch them, stop them.

Rules kept here:
1. All queries are planned before the first one starts, so that a mistake starts nothing.
2. One query's failure stops the others and ends the run: it is printed in one line with its sink.
   Where it was Spark's own (see `restarts`), the query is started again from its checkpoint, and
   that is printed.
3. An interrupt or SIGTERM stops all queries. What a batch had not finished is done again by the
   next run, from the checkpoint; nothing is lost or doubled by stopping, however roughly.
4. Brokers that cannot be reached are named before Java is started, which takes long.
"""

import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

from ottla.client import Client, KafkaError
from ottla.client.pipeline_reports import State
from pyspark_ottla.options import Options, Use
from pyspark_ottla.pipeline.display import Display
from pyspark_ottla.pipeline.failures import cause, failure_of
from pyspark_ottla.pipeline.late import LateRows
from pyspark_ottla.pipeline.locks import locked
from pyspark_ottla.pipeline.model import Pipeline, TopicSink, TopicSource
from pyspark_ottla.pipeline.options import kafka_options, source_options, topic_options
from pyspark_ottla.pipeline.places import is_local, local_path, resolve
from pyspark_ottla.pipeline.problems import PipelineError, WrongFileError
from pyspark_ottla.pipeline.progress import QueryProgress
from pyspark_ottla.pipeline.reporting import Reporter
from pyspark_ottla.pipeline.restarts import MOST_IN_A_ROW, Restarts
from pyspark_ottla.pipeline.session import (
    checkpoint_settings,
    keep_quiet_at_the_end,
    settings_for,
    start_session,
    started_elsewhere,
    without_traces_of_plans,
)
from pyspark_ottla.pipeline.sinks import Planned, plan
from pyspark_ottla.source.settings import SourceSettings

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
    probe(pipeline)
    shown = display or Display()
    log = log_file(pipeline)
    if log is not None and not started_elsewhere():
        shown.say(f"Spark's log is {log}")
    with stopping() as stop:
        chosen = settings_for(master, checkpoint_settings(pipeline), pipeline.spark, settings or {})
        spark = start_session(f"ottla pipeline {pipeline.name}", chosen, log)
        with stopping(stop):  # PySpark has put a handler of its own in place of ours.
            try:
                return PipelineRun(spark, pipeline, shown, stop).run(once=once)
            finally:
                spark.stop()


def probe(pipeline: Pipeline) -> None:
    """PipelineError where the brokers of a source or a topic sink cannot be reached."""
    settings = [
        SourceSettings.of(source_options(pipeline, source, "probe"), Use.STREAM_READ).client
        for source in pipeline.sources.values()
        if isinstance(source, TopicSource)
    ]
    settings += [
        Options(topic_options(pipeline, sink), Use.STREAM_WRITE).client_settings()
        for sink in pipeline.sinks.values()
        if isinstance(sink, TopicSink)
    ]
    ways = {(found.bootstrap_servers, found.security): found for found in settings}
    for each in ways.values():
        try:
            with Client(each) as client:
                client.metadata([])
        except KafkaError as problem:
            raise PipelineError(str(problem)) from None


def log_file(pipeline: Pipeline) -> Path | None:
    """Where Spark's own output goes: beside the checkpoint, if that is on this machine."""
    if pipeline.checkpoint is None:
        return None
    folder = resolve(pipeline.checkpoint, pipeline.path)
    return local_path(folder) / "spark.log" if is_local(folder) else None


@contextmanager
def stopping(event: threading.Event | None = None) -> Iterator[threading.Event]:
    """An event that an interrupt and SIGTERM set, as long as the block lasts."""
    stop = event or threading.Event()

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


@dataclass(slots=True)
class _Running:
    """A query that was started."""

    planned: Planned
    query: "StreamingQuery"
    progress: QueryProgress
    restarts: Restarts = field(default_factory=Restarts)


class PipelineRun:
    """One run of a pipeline in a session."""

    def __init__(
        self, spark: "SparkSession", pipeline: Pipeline, display: Display, stop: threading.Event
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._display = display
        self._stop = stop
        self._queries: list[_Running] = []
        self._late = LateRows(spark, pipeline)

    def run(
        self, *, once: bool, watch: Callable[[list[QueryProgress]], bool] | None = None
    ) -> list[QueryProgress]:
        """Start, watch, stop; returns what each query did.

        `watch` is called now and then while the queries run; they are stopped when it says False.
        """
        keep_quiet_at_the_end()
        with locked(self._pipeline), without_traces_of_plans():
            return self._run(once=once, watch=watch)

    def _run(
        self, *, once: bool, watch: Callable[[list[QueryProgress]], bool] | None
    ) -> list[QueryProgress]:
        planned = list(plan(self._spark, self._pipeline, once=once))
        with self._reported() as reporter:
            try:
                for item in planned:
                    if self._stop.is_set():
                        break
                    progress = QueryProgress(item.name, item.target, monotonic())
                    self._queries.append(_Running(item, item.start(), progress))
                while self._look(may_restart=True) and not self._stop.wait(POLL_SECONDS):
                    self._display.show(self.progress, monotonic())
                    if reporter is not None:
                        reporter.look(self.progress, monotonic())
                    if watch is not None and not watch(self.progress):
                        break
            finally:
                self._display.stop()
                self._stop_queries()
            self._look(may_restart=False)
            now = monotonic()
            for progress in self.progress:
                progress.ended = progress.ended or now
        self._display.summary(self.progress, now)
        return self.progress

    @contextmanager
    def _reported(self) -> Iterator[Reporter | None]:
        """What tells the cluster of this run, and at its end how it ended."""
        if not self._pipeline.report:
            yield None
            return
        settings = Options(kafka_options(self._pipeline), Use.STREAM_WRITE).client_settings()
        reporter = Reporter(str(self._pipeline.name), settings, self._display.say)
        state, error = State.FAILED, "it was interrupted"
        try:
            yield reporter
            state, error = State.STOPPED if self._stop.is_set() else State.DONE, ""
        except Exception as problem:
            error = str(problem)
            raise
        finally:
            reporter.end(self.progress, monotonic(), state, error)

    def _stop_queries(self) -> None:
        from pyspark.errors import PySparkException

        for item in self._queries:
            try:
                item.query.stop()
            except PySparkException:
                name = item.progress.name
                self._display.say(f"sink {name} did not stop in time; Spark will end it")

    @property
    def progress(self) -> list[QueryProgress]:
        """Of each query."""
        return [item.progress for item in self._queries]

    def _look(self, *, may_restart: bool) -> bool:
        """Take notice of what happened; False when there is nothing more to wait for."""
        now = monotonic()
        active = False
        for item in self._queries:
            progress = item.progress
            running = item.query.isActive
            documents = [json.loads(done.json) for done in item.query.recentProgress]
            for document in progress.see(documents, now):
                self._late.take(progress.name, document)
            if running:
                active = True
                continue
            failure = failure_of(item.query)
            if failure is not None and not self._stop.is_set():
                self._consider(item, failure, may_restart)
                active = True
            elif progress.ended is None:
                progress.ended = now
        return active

    def _consider(self, item: _Running, failure: str, may_restart: bool) -> None:
        """Start a query again that has failed, or raise what it failed of."""
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no stubs

        name = item.progress.name
        reason = cause(failure)
        if not may_restart or not item.restarts.allow(failure, item.progress.batches):
            item.progress.ended = monotonic()
            raise PipelineError(f"sink {name} failed: {reason}")
        item.progress.restarts += 1
        self._display.say(
            f"sink {name} failed ({reason}); restarting it from its checkpoint "
            f"(attempt {item.restarts.in_a_row} of {MOST_IN_A_ROW})"
        )
        try:
            item.query = item.planned.start()
        except (Py4JJavaError, WrongFileError) as problem:
            # Others of Spark's Python processes may be gone too. The next look begins again here.
            self._display.say(f"sink {name} could not be started: {cause(str(problem))}")
