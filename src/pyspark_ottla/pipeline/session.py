"""A Spark session for a pipeline.

Rules kept here:
1. What a person said on the command line counts first, then the pipeline file, then the defaults
   here; a session that is there already (spark-submit) keeps its master and its name.
2. Spark talks much. A session that is started here writes to a log file, so that the terminal
   belongs to the pipeline's progress.
3. Python workers run the interpreter that runs the driver, unless PYSPARK_PYTHON says otherwise.
4. Each query has a session of its own. Spark changes the environment that belongs to a format's
   registration whenever a stream of that format starts; a query that sends its tasks at that moment
   would fail ("Task not serializable"). Sessions have registrations, and views, of their own.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_ottla.pipeline.model import LakeSink, Pipeline
from pyspark_ottla.pipeline.places import is_local
from pyspark_ottla.pipeline.problems import PipelineError
from pyspark_ottla.pipeline.spark_home import use_home_without_zip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

LOCAL_MASTER = "local[*]"
DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.ui.showConsoleProgress": "false",
}
LOCAL_DEFAULTS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
"""For one machine; the number of shuffle partitions, which is made for clusters, is added."""
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
PLAIN_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""Spark's default starts a program (chmod, readlink) for much of what it does with a local file,
about 20 in a micro-batch, where Hadoop's native library is not there."""
PLAN_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
JAVA_MISSING = (
    "Spark needs Java 17 or newer, and there is none: install it (on Debian or Ubuntu: "
    "apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
)


def require_java() -> None:
    """PipelineError if Spark would find no Java."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return
    if shutil.which("java") is None:
        raise PipelineError(JAVA_MISSING)


def started_elsewhere() -> bool:
    """Whether there is a JVM already: that of spark-submit, or of another session."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def settings_for(master: str | None, *given: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings: later ones in `given` win over earlier ones, and all over the defaults."""
    chosen: dict[str, str] = {}
    for settings in given:
        chosen |= {str(name): str(value) for name, value in settings.items()}
    if master is not None:
        chosen["spark.master"] = master
    defaults = dict(DEFAULTS)
    if chosen.get("spark.master", LOCAL_MASTER).startswith("local"):
        cores = str(max(2, os.cpu_count() or 2))
        defaults |= {**LOCAL_DEFAULTS, "spark.sql.shuffle.partitions": cores}
    return defaults | chosen


def checkpoint_settings(pipeline: Pipeline) -> dict[str, str]:
    """How Spark is to handle a checkpoint's files, and those of a Parquet lake's log."""
    places = [pipeline.checkpoint] if pipeline.checkpoint is not None else []
    places += [
        sink.path
        for sink in pipeline.sinks.values()
        if isinstance(sink, LakeSink) and sink.format == "parquet"
    ]
    return {CHECKPOINT_FILES: PLAIN_FILES} if all(map(is_local, places)) else {}


def start_session(name: str, settings: Mapping[str, str], log: Path | None) -> "SparkSession":
    """The session; Spark's own output goes to `log`, if it is started here."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    if started_elsewhere():
        return builder.getOrCreate()
    require_java()
    if "spark.master" not in settings:
        builder = builder.master(LOCAL_MASTER)
    if settings.get("spark.master", LOCAL_MASTER).startswith("local"):
        use_home_without_zip()
    with _stderr_to(log):
        return builder.appName(name).getOrCreate()


def session_of_query(spark: "SparkSession") -> "SparkSession":
    """A session of the same application, with the same settings and the format "ottla"."""
    from pyspark_ottla import DefaultSource

    session = spark.newSession()
    for name, value in spark.conf.getAll.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    session.dataSource.register(DefaultSource)
    return session


@contextmanager
def without_traces_of_plans() -> "Iterator[None]":
    """Let PySpark not log what it finds wrong in a plan, with 8 KB of stack and more: the pipeline
    says it in a line.
    """
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in PLAN_LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


def keep_quiet_at_the_end() -> None:
    """Let PySpark not print a traceback when Spark hangs up on it, as it may when queries stop: the
    connection for accumulators is made again when it is needed. Other errors are printed.
    """
    from pyspark import accumulators

    server = accumulators.AccumulatorTCPServer
    if "handle_error" not in vars(server):
        server.handle_error = _unless_hung_up(server.handle_error)  # type: ignore[method-assign]


def _unless_hung_up(handle_error: Callable[..., None]) -> Callable[..., None]:
    def handle(*request: object) -> None:
        if not isinstance(sys.exc_info()[1], EOFError):
            handle_error(*request)

    return handle


@contextmanager
def _stderr_to(log: Path | None) -> "Iterator[None]":
    """The JVM inherits the standard error of this moment, and keeps it for its life."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(target)
