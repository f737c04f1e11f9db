"""Telling the cluster how a pipeline goes: reports into the topic `_ottla_pipelines`.

Rules kept here:
1. A pipeline never fails or waits for its reports. A thread sends them, the last one included, and
   the end of a pipeline waits for it for a few seconds at most.
2. When a report cannot be sent, that is said once; the next one is tried all the same.
3. Only the newest report counts: one that is not sent yet is replaced by it.
"""

import socket
import time
from collections.abc import Callable, Sequence
from threading import Condition, Thread

from msgspec.structs import replace

from ottla.client import Client, ClientSettings, KafkaError
from ottla.client.pipeline_reports import (
    LONGEST_ERROR,
    PIPELINES_TOPIC,
    REPORT_SECONDS,
    PipelineReport,
    QueryReport,
    State,
    make_topic,
    send_report,
)
from ottla.config.errors import ConfigError
from pyspark_ottla.pipeline.model import DEAD_LETTERS
from pyspark_ottla.pipeline.progress import QueryProgress

PATIENCE_SECONDS = 5.0
"""A report is retried, and at the end waited for, so long."""


def query_reports(queries: Sequence[QueryProgress], now: float) -> tuple[QueryReport, ...]:
    """What the queries have done (pure)."""
    return tuple(
        QueryReport(
            name=str(query.name),  # both may be texts of a file, which JSON does not know
            target=str(query.target),
            rows=query.rows,
            rows_per_second=round(query.rate(now), 1) if query.ended is None else 0.0,
            lag=query.lag,
            late=query.late,
            batches=query.batches,
            restarts=query.restarts,
            dead_letters=query.name.endswith(f".{DEAD_LETTERS}"),
            running=query.ended is None,
        )
        for query in queries
    )


class Reporter:
    """Sends reports of one run of a pipeline."""

    def __init__(self, pipeline: str, settings: ClientSettings, say: Callable[[str], None]) -> None:
        self._pipeline = pipeline
        self._settings = replace(settings, deadline=PATIENCE_SECONDS)
        self._say = say
        self._started = _now()
        self._last = float("-inf")
        self._changed = Condition()
        self._waiting: PipelineReport | None = None
        self._ending = False
        self._thread = Thread(target=self._run, name="pipeline-reports", daemon=True)
        self._thread.start()

    def look(self, queries: Sequence[QueryProgress], now: float) -> None:
        """Report how it goes, unless that was done a moment ago; `now` as in QueryProgress."""
        if now - self._last >= REPORT_SECONDS:
            self._last = now
            self._put(queries, now, State.RUNNING)

    def end(
        self, queries: Sequence[QueryProgress], now: float, state: State, error: str = ""
    ) -> None:
        """The last report."""
        self._put(queries, now, state, error[:LONGEST_ERROR])
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(PATIENCE_SECONDS)

    def _put(
        self, queries: Sequence[QueryProgress], now: float, state: State, error: str = ""
    ) -> None:
        report = PipelineReport(
            pipeline=self._pipeline,
            state=state,
            started=self._started,
            time=_now(),
            host=socket.gethostname(),
            queries=query_reports(queries, now),
            error=error,
        )
        with self._changed:
            self._waiting = report
            self._changed.notify()

    def _run(self) -> None:
        is_made = has_failed = False
        while True:
            with self._changed:
                while self._waiting is None and not self._ending:
                    self._changed.wait()
                report, self._waiting = self._waiting, None
            if report is None:
                return
            try:
                with Client(self._settings) as client:
                    if not is_made:
                        make_topic(client)
                        is_made = True
                    send_report(client, report)
            except (KafkaError, ConfigError) as problem:
                if not has_failed:
                    self._say(f"progress cannot be reported to topic {PIPELINES_TOPIC}: {problem}")
                has_failed = True


def _now() -> int:
    return time.time_ns() // 1_000_000
